using System.Globalization;
using System.Text;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Collects what errors say, each under the situation in which it is met.</summary>
internal sealed class ErrorCollector
{
    private readonly StringBuilder _text = new();
    private readonly List<(string Actual, string Shown)> _names = [];

    public string Text => _text.ToString();

    /// <summary>Shows a text that differs from run to run, such as a port, under a name.</summary>
    public void Name(object actual, string shown) => _names.Add((Convert.ToString(actual, CultureInfo.InvariantCulture)!, shown));

    public void Add(string situation, params IEnumerable<string> texts)
    {
        _text.Append("- ").Append(situation).Append('\n');
        foreach (var text in texts)
            _text.Append("  ").Append(_names.Aggregate(text.ReplaceLineEndings(" "), static (shown, name) => shown.Replace(name.Actual, name.Shown, StringComparison.Ordinal))).Append('\n');
    }

    public void Catch(string situation, Action action) => Add(situation, TextsOf(Assert.ThrowsAny<Exception>(action)));

    public async Task CatchAsync(string situation, Func<Task> action) => Add(situation, TextsOf(await Assert.ThrowsAnyAsync<Exception>(() => action().WithinDeadline())));

    private static IEnumerable<string> TextsOf(Exception exception) => exception is OptionsValidationException { Failures: var failures }
        ? failures.Select(static failure => $"{nameof(OptionsValidationException)}: {failure}")
        : [$"{exception.GetType().Name}: {exception.Message}"];
}
