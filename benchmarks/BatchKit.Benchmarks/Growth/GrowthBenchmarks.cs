using BatchKit.Benchmarks.Scopes;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Growth;

/// <summary>What does a message cost in a scope of 1 KiB to 256 MiB? Each row writes 256 MiB, in as many scopes as that takes.</summary>
[MemoryDiagnoser]
public class GrowthBenchmarks
{
    private const int MessageBytes = 100;
    private const int Kibibyte = 1024;
    private const int LargestKibibytes = 256 * Kibibyte;
    private const int Messages = LargestKibibytes / 100 * Kibibyte;

    private static readonly OutputHandle Handle = OutputHandle.Connection(node: 1, sequence: 1);

    private readonly byte[] _payload = new byte[MessageBytes];

    private OutputBuffer _output = null!;

    [Params(1, 100, 2 * Kibibyte, 16 * Kibibyte, LargestKibibytes)]
    public int ScopeKibibytes { get; set; }

    /// <summary>Few messages in a batch, few bytes, the defaults, or everything in one.</summary>
    [Params("10 messages", "256 bytes", "64 KiB", "1 GiB")]
    public string Batch { get; set; } = "";

    [GlobalSetup]
    public void Start()
    {
        var options = new OutputBufferOptions { MaxSendBytes = 1 << 30, MaxBufferedBytes = 1L << 31 };
        (options.MaxBatchMessages, options.MaxBatchBytes) = Batch switch
        {
            "10 messages" => (10, options.MaxBatchBytes),
            "256 bytes" => (options.MaxBatchMessages, 256),
            "1 GiB" => (1_000_000, 1 << 30),
            _ => (options.MaxBatchMessages, options.MaxBatchBytes),
        };
        _output = new OutputBuffer(new CompletedTransport(), options);
    }

    [GlobalCleanup]
    public void Stop() => _output.DisposeAsync().AsTask().GetAwaiter().GetResult();

    [Benchmark(OperationsPerInvoke = Messages)]
    public void WriteInScopes()
    {
        var messagesInScope = ScopeKibibytes * Kibibyte / MessageBytes;
        for (var written = 0; written < Messages; written += messagesInScope)
        {
            using var scope = _output.BeginBufferingScope(Handle);
            for (var message = Math.Min(messagesInScope, Messages - written); message > 0; message--)
                _output.Write(Handle, _payload);
        }
    }
}
