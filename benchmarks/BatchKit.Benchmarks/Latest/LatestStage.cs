using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.Latest;

/// <summary>A server, and a client that reads one value after another.</summary>
internal sealed class LatestStage : IAsyncDisposable
{
    // The smallest that Linux gives: what is in it can no longer be replaced.
    private const int SocketBytes = 2048;

    private static readonly BroadcastListenerOptions Door = new() { EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Protocol = ClientProtocol.Tcp };

    private readonly BroadcastTransport _transport = new(new BroadcastOptions { SendBufferBytes = SocketBytes, KeepAliveInterval = null, TextInputLimits = null });
    private readonly TaskCompletionSource<ClientConnection> _joined = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly Socket _client = new(SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = SocketBytes };
    private readonly OutputBuffer _output;
    private readonly BroadcastListener _listener;
    private readonly int _keys;
    private readonly byte[] _value;
    private ClientConnection _connection = null!;

    private LatestStage(int keys, int size)
    {
        _keys = keys;
        _value = new byte[size];
        _output = new OutputBuffer(_transport);
        _listener = new BroadcastListener(_transport, Door, connection =>
        {
            _joined.SetResult(connection);
            return new SilentHandler();
        });
    }

    public static async Task<LatestStage> StartAsync(int keys, int size)
    {
        var stage = new LatestStage(keys, size);
        await stage._listener.StartAsync(CancellationToken.None);
        await stage._client.ConnectAsync(stage._listener.EndPoint);
        stage._connection = await stage._joined.Task;
        return stage;
    }

    /// <summary>Writes values while the client reads, and then as many plain messages to the client that reads no more.</summary>
    /// <param name="updatesOfLine">How many updates are written before each line that the client reads.</param>
    /// <param name="lines">How many it reads, behind as many that fill what is between.</param>
    public async Task<LatestSample> MeasureAsync(int updatesOfLine, int lines)
    {
        var sample = new LatestSample();
        var updates = 0;
        for (var line = 0; line < 2 * lines; line++)
        {
            var allocated = GC.GetTotalAllocatedBytes(precise: true);
            for (var update = 0; update < updatesOfLine; update++)
                Write(updates++);
            sample.AllocatedBytes += line < lines ? 0 : (GC.GetTotalAllocatedBytes(precise: true) - allocated) / (double)updatesOfLine / lines;
            await _output.FlushAsync(_connection.Handle);
            if (line >= lines)
                sample.MostHeldBytes = Math.Max(sample.MostHeldBytes, _connection.Output.HeldBytes);
            await ReadAsync();
            var newer = BinaryPrimitives.ReadInt32LittleEndian(_value) + _keys;

            // The newer one was written before the line with this number was read.
            var isNewerSince = newer / updatesOfLine;
            if (line >= lines)
                sample.MostStaleLines = Math.Max(sample.MostStaleLines, line - isNewerSince);
        }

        sample.HeldAloneBytes = await HoldAloneAsync();
        return sample;
    }

    public async ValueTask DisposeAsync()
    {
        _client.Dispose();
        await _listener.DisposeAsync();
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
    }

    private void Write(int number)
    {
        BinaryPrimitives.WriteInt32LittleEndian(_value, number);
        _output.WriteLatest(_connection.Handle, number % _keys, _value);
    }

    private async Task ReadAsync()
    {
        for (var read = 0; read < _value.Length;)
            read += await _client.ReceiveAsync(_value.AsMemory(read));
    }

    // What the values that wait hold is in the way: the client reads them first.
    private async Task<int> HoldAloneAsync()
    {
        while (_connection.Output.HeldBytes > 0)
        {
            // The last value that is held may have been read already: its send is over a moment later.
            if (_client.Available == 0)
                await Task.Delay(1);
            else
                await ReadAsync();
        }

        for (var line = 0; _connection.Output.Waiting.Messages <= _keys; line++)
        {
            _output.Write(_connection.Handle, _value);
            await _output.FlushAsync(_connection.Handle);
        }

        // One is under way.
        return (int)(_connection.Output.HeldBytes * (long)_keys / (_keys + 1));
    }

    private sealed class SilentHandler : IConnectionHandler
    {
        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
    }
}

/// <summary>What was measured of one client.</summary>
internal sealed record LatestSample
{
    /// <summary>At most so many lines were read between when a newer value was written and when the older one was read.</summary>
    public int MostStaleLines { get; set; }

    /// <summary>The most memory that was held for the client.</summary>
    public int MostHeldBytes { get; set; }

    /// <summary>The memory that is held for a plain message of each key.</summary>
    public int HeldAloneBytes { get; set; }

    /// <summary>Bytes that an update allocates, on all threads.</summary>
    public double AllocatedBytes { get; set; }
}
