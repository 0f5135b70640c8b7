using BatchKit.Transports;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Scopes;

/// <summary>What does a write to a full buffer cost, under each policy, beside one to a buffer with as many handles whose next hop takes everything at once?</summary>
[MemoryDiagnoser]
public class FullBufferBenchmarks
{
    private const int Operations = 16_000;
    private const int MaxMessageBytes = 256;
    private const int BytesPerHandle = 2048;

    private readonly byte[] _payload = "a line of 20 bytes\r\n"u8.ToArray();

    private OutputBuffer _output = null!;
    private OutputHandle[] _handles = [];
    private StuckTransport? _stuck;
    private int _next;

    [Params(100, 50_000)]
    public int Handles { get; set; }

    [Params(OverflowPolicy.Wait, OverflowPolicy.Fail, OverflowPolicy.DropNewest, OverflowPolicy.DropOldest)]
    public OverflowPolicy Policy { get; set; }

    [GlobalSetup(Target = nameof(WriteToFreeBuffer))]
    public void StartFree() => Start(new CompletedTransport());

    [GlobalSetup(Target = nameof(WriteToFullBuffer))]
    public void StartFull()
    {
        Start(_stuck = new StuckTransport());
        while (_output.GetStatistics() is { DroppedMessages: 0, RefusedMessages: 0 } && TryWriteToEach())
        {
        }
    }

    [GlobalCleanup]
    public void Stop()
    {
        _stuck?.Release();
        _output.DisposeAsync().AsTask().GetAwaiter().GetResult();
    }

    [Benchmark(Baseline = true, OperationsPerInvoke = Operations)]
    public void WriteToFreeBuffer() => WriteInTurn();

    [Benchmark(OperationsPerInvoke = Operations)]
    public void WriteToFullBuffer() => WriteInTurn();

    private void Start(IBatchTransport next)
    {
        var options = new OutputBufferOptions
        {
            Overflow = Policy,
            MaxMessageBytes = MaxMessageBytes,
            MaxBatchBytes = MaxMessageBytes * 2,
            MaxBufferedBytes = Handles * BytesPerHandle,
            SendTimeout = TimeSpan.FromHours(1),
            DeliveryTimeout = TimeSpan.FromDays(1),
        };
        _output = new OutputBuffer(next, options);
        _handles = [.. Enumerable.Range(1, Handles).Select(static sequence => OutputHandle.Connection(node: 1, sequence))];
        TryWriteToEach();
    }

    private bool TryWriteToEach()
    {
        var isAccepted = true;
        foreach (var handle in _handles)
            isAccepted &= _output.TryWrite(handle, _payload);
        return isAccepted;
    }

    private void WriteInTurn()
    {
        for (var operation = 0; operation < Operations; operation++)
        {
            _output.TryWrite(_handles[_next], _payload);
            _next = _next + 1 == _handles.Length ? 0 : _next + 1;
        }
    }

    /// <summary>A next hop that answers no send before it is released.</summary>
    private sealed class StuckTransport : IBatchTransport
    {
        private readonly TaskCompletionSource _released = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public bool SendsWithoutBlocking => true;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => new(_released.Task);

        public void Release() => _released.TrySetResult();
    }
}
