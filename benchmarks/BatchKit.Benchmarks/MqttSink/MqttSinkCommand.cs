using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Linux;
using BatchKit.Benchmarks.RawMqtt;

namespace BatchKit.Benchmarks.MqttSink;

/// <summary><c>subscribe port quality</c>: a broker's one subscriber, on one thread of a process of its own.</summary>
/// <remarks>
/// It takes <c>expect isTimed</c>, <c>count</c>, and <c>wait messages milliseconds</c>, which ends when so many came or none came for so long. Where arrivals are not timed one by one it
/// looks once a millisecond: a thread that woke for every packet would take the cores from what is measured.
/// </remarks>
internal sealed class MqttSinkCommand : IDisposable
{
    public const string Filter = "bench/#";

    private const int PipePlace = -1;
    private const int BufferBytes = 1024 * 1024;

    private readonly ControlPipe _pipe = new();
    private readonly Poller _poller = new();
    private readonly RawConnection _connection;
    private readonly Arrivals _arrivals = new();
    private readonly byte[] _buffer = new byte[BufferBytes];
    private readonly byte[] _acknowledgements = new byte[BufferBytes / 4];
    private int _left;
    private bool _isEnded;

    private MqttSinkCommand(int port, int quality)
    {
        _connection = new RawConnection(port);
        _connection.Subscribe(Filter, quality);
        _poller.Add(_connection.Descriptor, place: 0);
        _poller.Add(0, PipePlace);
        _pipe.Reply(port);
    }

    public static int Run(int port, int quality)
    {
        using var sink = new MqttSinkCommand(port, quality);
        while (!sink._isEnded)
            sink.Poll(milliseconds: -1);
        return 0;
    }

    public void Dispose()
    {
        _connection.Dispose();
        _poller.Dispose();
    }

    private bool Poll(int milliseconds)
    {
        var count = _poller.Wait(milliseconds);
        for (var index = 0; index < count; index++)
        {
            if (_poller.PlaceOf(index) == PipePlace)
                Obey(_pipe.Read());
            else
                Receive();
        }

        return count > 0;
    }

    private void Obey(ReadOnlySpan<byte> command)
    {
        if (ControlPipe.WordAt(command, 0).SequenceEqual("expect"u8))
        {
            _arrivals.Begin(isTimed: ControlPipe.NumberAt(command, 1) != 0);
            _pipe.Reply(0);
        }
        else if (ControlPipe.WordAt(command, 0).SequenceEqual("count"u8))
        {
            _pipe.Reply(_arrivals.Count);
        }
        else if (ControlPipe.WordAt(command, 0).SequenceEqual("wait"u8))
        {
            Await(ControlPipe.NumberAt(command, 1), (int)ControlPipe.NumberAt(command, 2));
        }
        else
        {
            _isEnded = true;
        }
    }

    private void Await(long messages, int milliseconds)
    {
        while (_arrivals.Count < messages && Poll(milliseconds))
        {
        }

        _pipe.Reply(_arrivals.Count, _arrivals.FirstAt, _arrivals.LastAt, _arrivals.Median, _arrivals.NinetyNine);
    }

    private void Receive()
    {
        var length = _left + Libc.Receive(_connection.Descriptor, _buffer.AsSpan(_left));
        var taken = _arrivals.Take(_buffer.AsSpan(0, length), _acknowledgements, out var acknowledgementBytes);
        _left = length - taken;
        _buffer.AsSpan(taken, _left).CopyTo(_buffer);
        if (acknowledgementBytes > 0)
            _connection.Write(_acknowledgements.AsSpan(0, acknowledgementBytes));
        Libc.AcknowledgeAtOnce(_connection.Descriptor);
        if (!_arrivals.IsTimed)
            Thread.Sleep(1);
    }
}
