using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Linux;

namespace BatchKit.Benchmarks.Sink;

/// <summary><c>sink</c>: the clients of one server, in a process of their own. One thread reads them all, and says when the last byte was read.</summary>
internal sealed class SinkCommand : IDisposable
{
    private const int PipePlace = -1;
    private const int BufferBytes = 64 * 1024;

    // More would meet a full backlog, and the kernel tries again after a second.
    private const int MaxStarting = 64;
    private const int QuietMilliseconds = 200;

    private readonly ControlPipe _pipe = new();
    private readonly Poller _poller = new();
    private readonly List<SinkClient> _clients = [];
    private readonly StampedRecords _stamped = new();
    private readonly byte[] _buffer = new byte[BufferBytes];
    private long _expectedBytes;
    private int _missingClients;
    private bool _isEnded;

    public static int Run()
    {
        using var sink = new SinkCommand();
        sink._poller.Add(0, PipePlace);
        while (!sink._isEnded)
            sink.Poll(milliseconds: -1);
        return 0;
    }

    public void Dispose()
    {
        foreach (var client in _clients)
            client.Dispose();
        _poller.Dispose();
    }

    private int Poll(int milliseconds)
    {
        var count = _poller.Wait(milliseconds);
        for (var index = 0; index < count; index++)
        {
            var place = _poller.PlaceOf(index);
            if (place == PipePlace)
                Obey(_pipe.Read());
            else
                Read(_clients[place]);
        }

        return count;
    }

    private void Read(SinkClient client)
    {
        var before = client.Received;
        var bytes = client.Read(_buffer);
        if (_stamped.IsMeasuring)
            _stamped.Read(bytes, before);
        if (_missingClients == 0 || before >= _expectedBytes || client.Received < _expectedBytes)
            return;
        if (client.Received > _expectedBytes)
            throw new InvalidOperationException($"A client got {client.Received} bytes and not {_expectedBytes}.");
        if (--_missingClients == 0)
            _pipe.Reply(Stopwatch.GetTimestamp());
    }

    private void Obey(ReadOnlySpan<byte> command)
    {
        var verb = ControlPipe.WordAt(command, 0);
        if (verb.SequenceEqual("expect"u8))
            Expect(ControlPipe.NumberAt(command, 1));
        else if (verb.SequenceEqual("connect"u8))
            Connect((SinkProtocol)ControlPipe.NumberAt(command, 1), (int)ControlPipe.NumberAt(command, 2), (int)ControlPipe.NumberAt(command, 3));
        else if (verb.SequenceEqual("settle"u8))
            Settle();
        else if (verb.SequenceEqual("measure"u8))
            _pipe.Reply(_stamped.Start((int)ControlPipe.NumberAt(command, 1)));
        else if (verb.SequenceEqual("report"u8))
            _stamped.Report(_pipe);
        else
            _isEnded = true;
    }

    /// <summary>Waits, from now on, until each client has so many bytes.</summary>
    private void Expect(long bytes)
    {
        foreach (var client in _clients)
            client.Received = 0;
        (_expectedBytes, _missingClients) = (bytes, _clients.Count);
        _pipe.Reply(_missingClients);
    }

    private void Connect(SinkProtocol protocol, int port, int count)
    {
        var first = _clients.Count;
        var ready = first;
        while (ready < first + count)
        {
            while (_clients.Count < first + count && _clients.Count - ready < MaxStarting)
            {
                var client = new SinkClient(protocol, port);
                _poller.Add(client.Descriptor, _clients.Count);
                _clients.Add(client);
            }

            while (ready < _clients.Count && _clients[ready].IsReady)
                ready++;
            if (ready < _clients.Count)
                Poll(milliseconds: -1);
        }

        _pipe.Reply(ready);
    }

    /// <summary>Reads until nothing comes any more.</summary>
    private void Settle()
    {
        while (Poll(QuietMilliseconds) > 0)
        {
        }

        _pipe.Reply(_clients.Count);
    }
}
