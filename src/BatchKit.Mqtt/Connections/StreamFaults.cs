using System.Net.Sockets;
using System.Net.WebSockets;

namespace BatchKit.Mqtt.Connections;

/// <summary>What a broken stream throws.</summary>
internal static class StreamFaults
{
    public static bool Covers(Exception exception) => exception is IOException or SocketException or WebSocketException or ObjectDisposedException;

    /// <summary>The cause for a person: a socket's own error says more than what wraps it.</summary>
    public static string Describe(Exception exception)
    {
        var cause = exception;
        while (cause.InnerException is { } inner)
            cause = inner;
        return cause.Message.EndsWith('.') ? cause.Message : $"{cause.Message}.";
    }
}
