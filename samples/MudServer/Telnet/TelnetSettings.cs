using System.Net;

namespace MudServer.Telnet;

/// <summary>What the telnet side needs to know of how the server was started.</summary>
internal sealed record TelnetSettings
{
    public required IPEndPoint EndPoint { get; init; }

    public required int Node { get; init; }

    public bool SendsGoAhead { get; init; } = true;

    public int MaxConnections { get; init; } = 1000;

    public int MaxLineBytes { get; init; } = 4096;

    /// <summary>A client that leaves more unread is disconnected. More than any one command can send.</summary>
    public int MaxQueuedBytes { get; init; } = 8 * 1024 * 1024;

    /// <summary>How long a client that has ended its side may wait for its last answer, and a closed one may take to read it.</summary>
    public TimeSpan CloseTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>How long a stop leaves the game to close the connections itself; zero where the game is elsewhere.</summary>
    public TimeSpan StopTimeout { get; init; } = TimeSpan.FromSeconds(5);
}
