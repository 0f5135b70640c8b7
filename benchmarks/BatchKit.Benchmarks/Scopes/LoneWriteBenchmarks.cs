using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using BatchKit.Benchmarks.Measuring;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Scopes;

/// <summary>How long is one unscoped write under way, from the call until its client has read it, when no other write is near?</summary>
/// <remarks>BenchmarkDotNet's time has the pause in it. The times without it are printed at the end: p50 and p99 of the last 20,000 writes.</remarks>
[MemoryDiagnoser]
public class LoneWriteBenchmarks
{
    private const int MessageBytes = 64;

    // A write within 10 µs of the send before belongs to a loop.
    private static readonly TimeSpan Pause = TimeSpan.FromMicroseconds(30);

    private readonly byte[] _message = new byte[MessageBytes];
    private readonly byte[] _received = new byte[MessageBytes];
    private readonly long[] _times = new long[20_000];
    private long _count;
    private LoopServer _server = null!;
    private Socket _client = null!;
    private OutputHandle _handle;

    [GlobalSetup]
    public void Start()
    {
        _server = new LoopServer();
        _client = new Socket(SocketType.Stream, ProtocolType.Tcp);
        _client.Connect(new IPEndPoint(IPAddress.Loopback, _server.Port));
        _client.Blocking = false;
        _handle = _server.AwaitHandles(1)[0];
    }

    [GlobalCleanup]
    public void Stop()
    {
        _client.Dispose();
        _server.Dispose();
        var times = _times.Take((int)Math.Min(_count, _times.Length)).Select(ticks => Stopwatch.GetElapsedTime(0, ticks).TotalNanoseconds).ToArray();
        Console.WriteLine($"LoneWrite: p50 {Quantile.Of(times, 0.5):0} ns, p99 {Quantile.Of(times, 0.99):0} ns");
    }

    [Benchmark]
    public void LoneWrite()
    {
        var paused = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(paused) < Pause)
            Thread.SpinWait(1);
        var written = Stopwatch.GetTimestamp();
        _server.Output.Write(_handle, _message);
        AwaitMessage(written);
        _times[_count++ % _times.Length] = Stopwatch.GetTimestamp() - written;
    }

    // This thread reads without blocking, so that no thread's wake-up is part of the time.
    private void AwaitMessage(long written)
    {
        for (var read = 0; read < MessageBytes;)
        {
            read += _client.Receive(_received.AsSpan(read), SocketFlags.None, out var error);
            if (error is not (SocketError.Success or SocketError.WouldBlock) || Stopwatch.GetElapsedTime(written) > TimeSpan.FromSeconds(10))
                throw new InvalidOperationException($"The client did not get its message: {error}.");
        }
    }
}
