using System.Text.RegularExpressions;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>What the errors say that a newcomer can meet, in one file that is reviewed: each says what happened, which setting and limit it is about, and what to do next.</summary>
public sealed partial class ErrorTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, PostgresFixture postgres)
{
    private const string AcceptVariable = "BATCHKIT_ACCEPT_ERRORS";
    private const string Reviewed = "tests/BatchKit.IntegrationTests/Errors/Errors.txt";

    [Fact]
    public Task Options_are_as_reviewed() => CheckAsync("Options", OptionsErrors.CollectAsync);

    [Fact]
    public Task The_core_is_as_reviewed() => CheckAsync("BatchKit", CoreErrors.CollectAsync);

    [Fact]
    public Task Broadcast_is_as_reviewed() => CheckAsync("BatchKit.Broadcast", BroadcastErrors.CollectAsync);

    [Fact]
    public async Task RabbitMq_is_as_reviewed()
    {
        var server = await rabbitMq.GetAsync();

        await CheckAsync("BatchKit.RabbitMQ", errors => RabbitMqErrors.CollectAsync(server, errors));
    }

    [Fact]
    public async Task MassTransit_is_as_reviewed()
    {
        var server = await rabbitMq.GetAsync();

        await CheckAsync("BatchKit.MassTransit", errors => MassTransitErrors.CollectAsync(server, errors));
    }

    [Fact]
    public async Task Mqtt_is_as_reviewed()
    {
        var server = await mosquitto.GetAsync();

        await CheckAsync("BatchKit.Mqtt", errors => MqttErrors.CollectAsync(server, errors));
    }

    [Fact]
    public Task MqttNet_is_as_reviewed() => CheckAsync("BatchKit.MQTTnet", MqttNetErrors.CollectAsync);

    [Fact]
    public async Task Postgres_is_as_reviewed()
    {
        var server = await postgres.GetAsync();

        await CheckAsync("BatchKit.Postgres", errors => PostgresErrors.CollectAsync(server, errors));
    }

    // A section of the file for each package, so that the others can be compared where a server is missing.
    private static async Task CheckAsync(string section, Func<ErrorCollector, Task> collect)
    {
        var errors = new ErrorCollector();
        await collect(errors);

        var path = Path.Combine(FindRoot(), Reviewed);
        var (before, reviewed, after) = Split(File.Exists(path) ? (await File.ReadAllTextAsync(path)).ReplaceLineEndings("\n") : "", section);
        if (Environment.GetEnvironmentVariable(AcceptVariable) == "1")
            await File.WriteAllTextAsync(path, $"{before}## {section}\n\n{reviewed = errors.Text}{after}");

        var lines = errors.Text.Split('\n');
        Assert.True(reviewed == errors.Text, $"The errors of {section} are not the reviewed ones:\n{Difference(reviewed.Split('\n'), lines)}\n"
            + $"If that is meant, run the test with {AcceptVariable}=1 and commit {Reviewed} with the change.");
        Assert.All(lines.Where(static line => line.StartsWith("  ", StringComparison.Ordinal)), static line => Assert.Matches(Remedy, line));
    }

    private static (string Before, string Section, string After) Split(string text, string section)
    {
        var heading = $"## {section}\n\n";
        var start = text.IndexOf(heading, StringComparison.Ordinal);
        if (start < 0)
            return (text.Length == 0 ? "" : text + "\n", "", "");
        var end = text.IndexOf("\n## ", start, StringComparison.Ordinal) is >= 0 and var next ? next : text.Length;
        return (text[..start], text[(start + heading.Length)..end], text[end..]);
    }

    private static string FindRoot()
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder.FullName, "BatchKit.sln")))
            folder = folder.Parent!;
        return folder.FullName;
    }

    private static string Difference(string[] reviewed, string[] actual) => string.Join('\n',
        reviewed.Except(actual, StringComparer.Ordinal).Select(static line => $"- {line}").Concat(actual.Except(reviewed, StringComparer.Ordinal).Select(static line => $"+ {line}")));

    /// <summary>What tells the reader what to do: an order, or the rule that a value must keep.</summary>
    [GeneratedRegex(@"\b(must|use|set|call|give|add|raise|choose|check|start|write|make|return|register|resolve|grant|run|split|update|leave|await|let|pass|send|stop|remove)\b",
        RegexOptions.IgnoreCase | RegexOptions.ExplicitCapture | RegexOptions.CultureInvariant, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Remedy { get; }
}
