using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>Collects every log entry of every level, with its exception and its scopes, and finds a secret payload in them, in the forms in which bytes are commonly written. Every member may be called from any thread.</summary>
public sealed class PayloadWatch : ILoggerFactory, ILogger
{
    /// <summary>The secret: write it as a payload.</summary>
    public const string Secret = "xyzzy-plugh";

    // As text, as hexadecimal and decimal bytes, as Base64, and a part of two of these.
    private static readonly string[] Forms =
    [
        Secret, Convert.ToHexString(Some.Bytes(Secret)), BitConverter.ToString(Some.Bytes(Secret)), Convert.ToBase64String(Some.Bytes(Secret)), string.Join(", ", Some.Bytes(Secret)),
        "7A7A79", "zzy-pl",
    ];

    private readonly ConcurrentQueue<string> _entries = new();

    /// <summary>All entries, in order, one a line.</summary>
    public string Text => string.Join(Environment.NewLine, _entries);

    /// <summary>A payload of at least this many bytes, made of the secret.</summary>
    /// <param name="bytes">The least size.</param>
    public static string Repeat(int bytes) => string.Concat(Enumerable.Repeat(Secret, (bytes / Secret.Length) + 1));

    /// <summary>Fails the test when the text has the secret in any form.</summary>
    /// <param name="text">Entries of a log, or the text of an exception.</param>
    public static void AssertHasNone(string text) => Assert.All(Forms, form => Assert.DoesNotContain(form, text, StringComparison.OrdinalIgnoreCase));

    /// <inheritdoc/>
    public ILogger CreateLogger(string categoryName) => this;

    /// <summary>Does nothing: its loggers have their own sink.</summary>
    /// <param name="provider">Ignored.</param>
    public void AddProvider(ILoggerProvider provider)
    {
    }

    /// <inheritdoc/>
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull
    {
        _entries.Enqueue($"scope {state}");
        return null;
    }

    /// <inheritdoc/>
    public bool IsEnabled(LogLevel logLevel) => true;

    /// <inheritdoc/>
    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        ArgumentNullException.ThrowIfNull(formatter);
        _entries.Enqueue($"{logLevel} {formatter(state, exception)} {exception}");
    }

    /// <summary>Does nothing: the entries can be read afterwards.</summary>
    public void Dispose()
    {
    }
}
