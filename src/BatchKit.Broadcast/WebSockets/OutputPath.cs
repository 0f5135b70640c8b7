using System.Buffers.Binary;
using System.Net.Sockets;
using BatchKit.Broadcast.Connections;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Server.Kestrel.Core.Features;
using Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Which path a client's output takes, its socket or the server's stream. It is chosen once, by the first caller; output waits until then.</summary>
internal sealed class OutputPath(OutputHandle handle, ILogger logger)
{
    private const int Open = 0;
    private const int Direct = 1;
    private const int Stream = 2;

    private LazyCompletion<int> _chosen;
    private ITimer? _limit;
    private int _path;

    /// <summary>Completes with the choice.</summary>
    public Task Chosen => _chosen.Task;

    public bool IsOpen => Volatile.Read(ref _path) == Open;

    /// <summary>True when the socket is written to directly.</summary>
    public bool IsDirect => Volatile.Read(ref _path) == Direct;

    /// <summary>Chooses the stream when nothing else is chosen within a time limit.</summary>
    public void ChooseWithin(TimeSpan limit, TimeProvider timeProvider)
    {
        if (!IsOpen)
            return;
        var timer = timeProvider.CreateTimer(static state => ((OutputPath)state!).ChooseStream("the client sent no pong in time"), this, limit, Timeout.InfiniteTimeSpan);

        // A full barrier: a thread that chooses at this moment sees the timer, or this thread sees the choice.
        Interlocked.Exchange(ref _limit, timer);
        if (!IsOpen)
            EndLimit();
    }

    public void ChooseDirect()
    {
        if (TryChoose(Direct))
            Log.WritesDirectly(logger, handle);
    }

    public void ChooseStream(string reason)
    {
        if (TryChoose(Stream))
            Log.WritesToStream(logger, handle, reason);
    }

    private bool TryChoose(int path)
    {
        if (Interlocked.CompareExchange(ref _path, path, Open) != Open)
            return false;
        _chosen.TrySet(path);
        EndLimit();
        return true;
    }

    // A timer takes 120 bytes, and a client that has answered needs none.
    private void EndLimit() => Interlocked.Exchange(ref _limit, null)?.Dispose();
}

/// <summary>Decides whether the bytes of an upgraded request are the bytes of its socket, so that frames may be written to it directly.</summary>
internal static class DirectEligibility
{
    /// <param name="context">The request, before its upgrade.</param>
    /// <param name="upgrade">The server's own upgrade feature.</param>
    /// <param name="socket">The socket, when there is no obstacle.</param>
    /// <returns>Why the socket may not be written to directly; null when it may.</returns>
    public static string? FindObstacle(HttpContext context, IHttpUpgradeFeature? upgrade, out Socket? socket)
    {
        var features = context.Features;
        socket = features.Get<IConnectionSocketFeature>()?.Socket;

        // Under HTTP/2 everything else looks the same, but the socket carries the bytes of other requests too.
        if (!HttpProtocol.IsHttp11(context.Request.Protocol))
            return $"the request came by {context.Request.Protocol}";
        if (upgrade is not { IsUpgradableRequest: true } || !IsOf<KestrelServer>(upgrade))
            return "the upgrade is not Kestrel's own";
        if (features.Get<ITlsHandshakeFeature>() is not null)
            return "the connection is encrypted";

        // Connection middleware, such as TLS or logging, replaces the transport's pipe by its own.
        if (features.Get<IConnectionTransportFeature>() is not { } connection || !IsOf<SocketTransportOptions>(connection.Transport))
            return "connection middleware may change the bytes";
        return socket is { SocketType: SocketType.Stream, AddressFamily: AddressFamily.InterNetwork or AddressFamily.InterNetworkV6 }
            ? null
            : "the connection has no TCP socket";
    }

    private static bool IsOf<TNeighbour>(object part) => part.GetType().Assembly == typeof(TNeighbour).Assembly;
}

/// <summary>Looks for a client's first pong in its bytes, frame by frame.</summary>
internal sealed class PongWatch
{
    private const int MaxHeaderBytes = 14;
    private const byte OpcodeBits = 0x0F;
    private const byte PongOpcode = 0xA;
    private const byte LengthBits = 0x7F;
    private const byte MaskBit = 0x80;

    private readonly byte[] _header = new byte[MaxHeaderBytes];
    private int _headerBytes;
    private long _payloadBytes;

    /// <returns>True when the bytes contain a pong's header.</returns>
    public bool HasPong(ReadOnlySpan<byte> received)
    {
        while (!received.IsEmpty)
        {
            if (_payloadBytes > 0)
            {
                var skipped = (int)Math.Min(_payloadBytes, received.Length);
                _payloadBytes -= skipped;
                received = received[skipped..];
                continue;
            }

            _header[_headerBytes++] = received[0];
            received = received[1..];
            if (_headerBytes < 2 || _headerBytes < HeaderLength)
                continue;
            if ((_header[0] & OpcodeBits) == PongOpcode)
                return true;
            (_payloadBytes, _headerBytes) = (PayloadLength, 0);
        }

        return false;
    }

    private int ShortLength => _header[1] & LengthBits;

    private int HeaderLength => 2 + (ShortLength switch { 126 => 2, 127 => 8, _ => 0 }) + ((_header[1] & MaskBit) != 0 ? 4 : 0);

    private long PayloadLength => ShortLength switch
    {
        126 => BinaryPrimitives.ReadUInt16BigEndian(_header.AsSpan(2)),
        127 => BinaryPrimitives.ReadInt64BigEndian(_header.AsSpan(2)),
        var length => length,
    };
}
