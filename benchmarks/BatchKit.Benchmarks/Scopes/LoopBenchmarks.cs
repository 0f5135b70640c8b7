using System.Net.Sockets;
using BatchKit.Benchmarks.FanoutServers;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Scopes;

/// <summary>What does a busy loop of unscoped writes to many sockets gain over a send for each message?</summary>
/// <remarks>An operation ends when every client has read its last byte. A time is that of one message.</remarks>
[MemoryDiagnoser]
[WarmupCount(3)]
[IterationCount(5)]
[InvocationCount(1)]
public class LoopBenchmarks
{
    private const int Clients = 50;
    private const int Messages = 200_000;
    private const int MessageBytes = 64;
    private const int MessagesPerTick = 4000;

    private readonly byte[] _message = new byte[MessageBytes];

    private AcceptedSockets _accepted = null!;
    private Socket[] _sockets = [];
    private LoopServer _server = null!;
    private OutputHandle[] _handles = [];
    private LoopClients _clients = null!;

    [GlobalSetup(Target = nameof(SendEach))]
    public void StartSockets()
    {
        _accepted = new AcceptedSockets();
        _clients = Connect(_accepted.Start());
        SpinWait.SpinUntil(() => _accepted.Count == Clients, TimeSpan.FromSeconds(10));
        _sockets = _accepted.Snapshot;
    }

    [GlobalCleanup(Target = nameof(SendEach))]
    public void StopSockets()
    {
        _clients.Dispose();
        _accepted.Dispose();
    }

    [GlobalSetup(Targets = [nameof(UnscopedLoop), nameof(ScopeATick)])]
    public void StartServer()
    {
        _server = new LoopServer();
        _clients = Connect(_server.Port);
        _handles = _server.AwaitHandles(Clients);
    }

    [GlobalCleanup(Targets = [nameof(UnscopedLoop), nameof(ScopeATick)])]
    public void StopServer()
    {
        _clients.Dispose();
        _server.Dispose();
    }

    [Benchmark(Baseline = true, OperationsPerInvoke = Messages)]
    public void SendEach()
    {
        for (var number = 0; number < Messages; number++)
            _sockets[number % Clients].Send(_message);
        _clients.AwaitLastByte();
    }

    // Write never finds the buffer full: a message costs at most the 256 bytes of a batch of its own, so that 200,000 take 51 of its 67 million bytes,
    // and the operation before has ended. A longer loop awaits WriteAsync. A client's queue of 1 MiB has capacity for all its 256,000 bytes.
    [Benchmark(OperationsPerInvoke = Messages)]
    public void UnscopedLoop()
    {
        Write(0, Messages);
        _clients.AwaitLastByte();
    }

    [Benchmark(OperationsPerInvoke = Messages)]
    public void ScopeATick()
    {
        for (var first = 0; first < Messages; first += MessagesPerTick)
        {
            using (_server.Output.BeginBufferingScope())
                Write(first, MessagesPerTick);
        }

        _clients.AwaitLastByte();
    }

    private static LoopClients Connect(int port) => new(Clients, port, Messages / Clients * MessageBytes);

    private void Write(int first, int count)
    {
        for (var number = first; number < first + count; number++)
            _server.Output.Write(_handles[number % Clients], _message);
    }
}
