using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.RawMqtt;

namespace BatchKit.Benchmarks.Publishers;

/// <summary>Where messages go, what they are like, and the publisher's settings that are not BatchKit's defaults.</summary>
/// <param name="Port">The broker's.</param>
/// <param name="Shape">What is published.</param>
internal readonly record struct PublishTarget(int Port, PublishShape Shape)
{
    /// <summary>Where the broker runs: here, unless <c>run</c> was told otherwise.</summary>
    public static string Host { get; } = RunSettings.Server?.Host ?? "127.0.0.1";

    /// <summary>Whether it is reached over TLS.</summary>
    public static bool IsSecure { get; } = RunSettings.Server?.Scheme == "mqtts";

    public static string? UserName { get; } = PartOf(0);

    public static string? Password { get; } = PartOf(1);

    /// <summary>Where the broker runs, for the library's own clients.</summary>
    public Uri Server => new UriBuilder(IsSecure ? "mqtts" : "mqtt", Host, Port) { UserName = Uri.EscapeDataString(UserName ?? ""), Password = Uri.EscapeDataString(Password ?? "") }.Uri;

    /// <summary>The most messages without acknowledgement, where the broker allows as many.</summary>
    public int Window { get; init; } = 1000;

    public int Aliases { get; init; }

    public bool AcknowledgesAtOnce { get; init; } = true;

    /// <summary>Adds so many bytes to the topic's name.</summary>
    public int TopicPadding { get; init; }

    /// <summary>Messages go to so many topics in turn, where the way can do that.</summary>
    public int Topics { get; init; } = 1;

    /// <summary>Only a server that is a part of the way keeps the last message of each topic.</summary>
    public bool IsRetained { get; init; }

    public static PublishTarget Read(ReadOnlySpan<byte> command) =>
        new(At(command, 2), new PublishShape(At(command, 3), At(command, 4)))
        {
            Window = At(command, 5),
            Aliases = At(command, 6),
            AcknowledgesAtOnce = At(command, 7) != 0,
            TopicPadding = At(command, 8),
            Topics = At(command, 9),
            IsRetained = At(command, 10) != 0,
        };

    /// <summary>The words behind a command and its amount.</summary>
    public string Words => $"{Port} {Shape.Quality} {Shape.Properties} {Window} {Aliases} {(AcknowledgesAtOnce ? 1 : 0)} {TopicPadding} {Topics} {(IsRetained ? 1 : 0)}";

    private static string? PartOf(int index) =>
        RunSettings.Server?.UserInfo.Split(':', 2, StringSplitOptions.RemoveEmptyEntries).ElementAtOrDefault(index) is { } part ? Uri.UnescapeDataString(part) : null;

    private static int At(ReadOnlySpan<byte> command, int index) => (int)ControlPipe.NumberAt(command, index);
}
