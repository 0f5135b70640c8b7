using System.Text.Json;
using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Nodes;

/// <summary>What a process should do; it travels as its argument.</summary>
internal sealed record NodeSettings
{
    /// <summary>The argument before the settings.</summary>
    public const string Command = "node";

    /// <summary>One of <see cref="NodeHost"/>'s transports.</summary>
    public required string Transport { get; init; }

    /// <summary>The node's name.</summary>
    public required string Name { get; init; }

    /// <summary>The node's number.</summary>
    public required int Node { get; init; }

    /// <summary>Which of the node's processes it is; 1 for the first.</summary>
    public required int Version { get; init; }

    /// <summary>What it writes to; nothing for a node that only receives.</summary>
    public required IReadOnlyList<Target> Targets { get; init; }

    /// <summary>Where the broker listens, as its options take it.</summary>
    public required string Address { get; init; }

    /// <summary>The prefix or schema of everything that the run has at the broker.</summary>
    public required string Prefix { get; init; }

    /// <summary>The file that its history goes to.</summary>
    public required string HistoryPath { get; init; }

    /// <summary>The file of its <see cref="NodeControl"/>.</summary>
    public required string ControlPath { get; init; }

    /// <summary>The seed of what it writes.</summary>
    public required int Seed { get; init; }

    /// <summary>Reads the argument.</summary>
    public static NodeSettings Parse(string argument) => JsonSerializer.Deserialize<NodeSettings>(argument)!;

    public string ToArgument() => JsonSerializer.Serialize(this);
}
