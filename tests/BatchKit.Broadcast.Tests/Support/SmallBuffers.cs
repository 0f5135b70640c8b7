using System.Net.Sockets;

namespace BatchKit.Broadcast.Tests.Support;

/// <summary>Makes a client slow as soon as it stops reading.</summary>
internal static class SmallBuffers
{
    // Linux' TCP_MAXSEG, which .NET has no name for.
    private const int MaxSegmentOption = 2;
    private const int SegmentBytes = 536;
    private const int BufferBytes = 2048;

    /// <summary>Lets the kernel hold some 40 KB for it at most.</summary>
    /// <remarks>
    /// Once such a buffer is full, Linux drops the server's small segments, and with them the acknowledgements that follow: what the client sends after that can wait for minutes, though the server has read all that came before.
    /// </remarks>
    /// <param name="socket">Not connected yet: a window that shrinks drops what is on its way, and a segment that is larger than the window waits for the kernel's timers.</param>
    public static void Set(Socket socket)
    {
        socket.ReceiveBufferSize = BufferBytes;
        socket.SetRawSocketOption((int)ProtocolType.Tcp, MaxSegmentOption, BitConverter.GetBytes(SegmentBytes));
    }
}
