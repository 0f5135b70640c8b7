using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Benchmarks.Linux;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.EdgeLoad;

/// <summary>A player of the MUD who types a line at a steady pace and waits for its answer. The time of a line begins when it was due.</summary>
internal sealed class HonestPlayer : IDisposable
{
    private const double NanosecondsPerMillisecond = 1e6;

    // Sixteen lines a second, which is less than a client may send.
    private static readonly TimeSpan Period = TimeSpan.FromMilliseconds(60);

    private readonly Socket _socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly byte[] _buffer = new byte[64 * 1024];
    private int _kept;
    private int _lines;

    public HonestPlayer(IPEndPoint server)
    {
        _socket.NoDelay = true;
        _socket.ReceiveTimeout = (int)TimeSpan.FromSeconds(60).TotalMilliseconds;
        _socket.Connect(server);
        _socket.Send("connect Ana\r\n"u8);
        Await("Welcome, Ana."u8);
    }

    /// <summary>Plays for a while.</summary>
    /// <param name="duration">How long.</param>
    /// <param name="afterEach">Called after each answer.</param>
    /// <exception cref="InvalidOperationException">The server disconnected the player, or did not answer within a minute.</exception>
    public HonestTimes Play(TimeSpan duration, Action afterEach)
    {
        var times = new List<double>();
        var began = Stopwatch.GetTimestamp();
        for (var due = TimeSpan.Zero; due < duration; due += Period)
        {
            if (due - Stopwatch.GetElapsedTime(began) is { } early && early > TimeSpan.Zero)
                Libc.Sleep(early);

            // What is due at the end and was held up by the lines before it has waited until then.
            if (Stopwatch.GetElapsedTime(began) < duration)
                Ask();
            times.Add((Stopwatch.GetElapsedTime(began) - due).TotalNanoseconds / NanosecondsPerMillisecond);
            afterEach();
        }

        return new HonestTimes(Quantile.Of(times, 0.5), Quantile.Of(times, 0.99), times.Max());
    }

    public void Dispose() => _socket.Dispose();

    private void Ask()
    {
        var answer = $"answer {++_lines}\r\n";
        _socket.Send(Encoding.ASCII.GetBytes($"think {answer}"));
        Await(Encoding.ASCII.GetBytes(answer));
    }

    private void Await(ReadOnlySpan<byte> text)
    {
        try
        {
            while (true)
            {
                if (_buffer.AsSpan(0, _kept).IndexOf(text) is var found and >= 0)
                {
                    Keep(_kept - found - text.Length);
                    return;
                }

                // The beginning of the text may be the end of what was read.
                Keep(Math.Min(_kept, text.Length));
                var read = _socket.Receive(_buffer.AsSpan(_kept));
                _kept += read > 0 ? read : throw new InvalidOperationException("The server disconnected the honest player.");
            }
        }
        catch (SocketException failure)
        {
            throw new InvalidOperationException($"The honest player got no answer: {failure.Message}", failure);
        }
    }

    private void Keep(int bytes)
    {
        _buffer.AsSpan(_kept - bytes, bytes).CopyTo(_buffer);
        _kept = bytes;
    }
}

/// <summary>From when a line was due until its answer came, in milliseconds.</summary>
internal readonly record struct HonestTimes(double Median, double NinetyNine, double Longest);
