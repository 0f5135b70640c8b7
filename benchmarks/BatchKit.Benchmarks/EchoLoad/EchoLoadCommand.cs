using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Linux;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.EchoLoad;

/// <summary><c>load port connections</c>: the clients of one echo server, on one thread of a process of its own.</summary>
internal sealed class EchoLoadCommand : IDisposable
{
    private const int PipePlace = -1;
    private const int BufferBytes = 256 * 1024;

    // At less than full load each connection sends what is due once in a tick, as a game does, and each slot of the tick has its share of them.
    private const int TickMilliseconds = 10;

    private readonly ControlPipe _pipe = new();
    private readonly Poller _poller = new();
    private readonly byte[] _buffer = new byte[BufferBytes];
    private readonly LatencyHistogram _latencies = new();
    private readonly EchoClient[] _clients;
    private readonly bool[] _isWatchedForRoom;
    private readonly long[] _pacedRecords;
    private int _window;
    private bool _isEnded;

    private EchoLoadCommand(int port, int connections)
    {
        var pattern = new RecordPattern();
        _clients = [.. Enumerable.Range(0, connections).Select(_ => new EchoClient(port, pattern))];
        _isWatchedForRoom = new bool[connections];
        _pacedRecords = new long[connections];
        for (var place = 0; place < connections; place++)
            _poller.Add(_clients[place].Descriptor, place);
        _poller.Add(0, PipePlace);
        _pipe.Reply(connections);
    }

    public static int Run(int port, int connections)
    {
        using var load = new EchoLoadCommand(port, connections);
        while (!load._isEnded)
            load.Poll(milliseconds: -1, isSending: false);
        return 0;
    }

    public void Dispose()
    {
        foreach (var client in _clients)
            client.Dispose();
        _poller.Dispose();
    }

    /// <returns>How many records came back.</returns>
    private long Poll(int milliseconds, bool isSending)
    {
        var records = 0L;
        var count = _poller.Wait(milliseconds);
        for (var index = 0; index < count; index++)
        {
            var place = _poller.PlaceOf(index);
            if (place == PipePlace)
            {
                Obey(_pipe.Read());
                continue;
            }

            records += _clients[place].Receive(_buffer, _latencies);
            if (isSending || _clients[place].IsFull)
                Send(place, isSending ? _window : 0);
        }

        return records;
    }

    /// <summary>A run: <c>full window milliseconds</c> or <c>paced records-a-second milliseconds</c>.</summary>
    private void Obey(ReadOnlySpan<byte> command)
    {
        var (amount, milliseconds) = (ControlPipe.NumberAt(command, 1), ControlPipe.NumberAt(command, 2));
        if (ControlPipe.WordAt(command, 0).SequenceEqual("full"u8))
            SendFull((int)amount, TimeSpan.FromMilliseconds(milliseconds));
        else if (ControlPipe.WordAt(command, 0).SequenceEqual("paced"u8))
            SendPaced(amount, TimeSpan.FromMilliseconds(milliseconds));
        else
            _isEnded = true;
    }

    private void SendFull(int window, TimeSpan duration)
    {
        _window = window;
        _latencies.Clear();
        for (var place = 0; place < _clients.Length; place++)
            Send(place, window);
        var (records, began) = (0L, Stopwatch.GetTimestamp());
        while (Stopwatch.GetElapsedTime(began) < duration)
            records += Poll(milliseconds: 1, isSending: true);
        Report(records, began);
    }

    private void SendPaced(long recordsPerSecond, TimeSpan duration)
    {
        _latencies.Clear();
        Array.Clear(_pacedRecords);
        var (records, slot, began) = (0L, 0, Stopwatch.GetTimestamp());
        for (var elapsed = TimeSpan.Zero; elapsed < duration; elapsed = Stopwatch.GetElapsedTime(began))
        {
            for (; slot <= elapsed.TotalMilliseconds; slot++)
                SendSlot(slot, recordsPerSecond);
            records += Poll(milliseconds: 1, isSending: false);
        }

        Report(records, began);
    }

    /// <summary>Sends what is due on a tenth of the connections.</summary>
    private void SendSlot(int slot, long recordsPerSecond)
    {
        var due = (double)slot * recordsPerSecond / (1000 * _clients.Length);
        for (var place = slot % TickMilliseconds; place < _clients.Length; place += TickMilliseconds)
        {
            Send(place, window: int.MaxValue, maxRecords: (long)due - _pacedRecords[place]);
            _pacedRecords[place] = (long)due;
        }
    }

    /// <summary>Tells what came back in that time, then waits for the rest.</summary>
    private void Report(long records, long began)
    {
        var nanoseconds = (long)Stopwatch.GetElapsedTime(began).TotalNanoseconds;
        var (median, ninetyNine) = (_latencies.At(0.5), _latencies.At(0.99));
        while (Poll(milliseconds: 100, isSending: false) > 0)
        {
        }

        _pipe.Reply(records, nanoseconds, median, ninetyNine);
    }

    private void Send(int place, int window, long maxRecords = long.MaxValue / 4096)
    {
        var client = _clients[place];
        client.Send(window == 0 ? 0 : maxRecords, window);
        if (client.IsFull == _isWatchedForRoom[place])
            return;
        _isWatchedForRoom[place] = client.IsFull;
        _poller.Watch(client.Descriptor, place, client.IsFull);
    }
}
