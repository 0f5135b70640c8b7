using BatchKit.Transports;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Growth;

/// <summary>What does a message cost with one size or count at its least, and far above its default? All else is as the defaults have it, and so is the workload.</summary>
[MemoryDiagnoser]
public class OptionBenchmarks
{
    private const int Rounds = 20;
    private const int Handles = 50;
    private const int MessageBytes = 100;
    private const int MessagesInRound = 1000;
    private const int MessagesInLargeScope = 30_000;
    private const int Messages = (Rounds * MessagesInRound) + MessagesInLargeScope;

    // The least that a setting may be, or that has room for the workload; and 32 times its default, or the most that it may be.
    private static readonly Dictionary<string, Action<OutputBufferOptions, FrameTransportOptions>> Settings = new()
    {
        ["defaults"] = static (_, _) => { },
        ["batch: 256 bytes"] = static (options, _) => options.MaxBatchBytes = 256,
        ["batch: 2 MiB"] = static (options, frames) => options.MaxBatchBytes = (frames.MaxFrameBytes = 2 << 20) - FrameWriter.OverheadBytes,
        ["batch: 1 message"] = static (options, _) => options.MaxBatchMessages = 1,
        ["batch: 320k messages"] = static (options, _) => options.MaxBatchMessages = 320_000,
        ["message: 100 bytes"] = static (options, _) => options.MaxMessageBytes = MessageBytes,
        ["message: 32 MiB"] = static (options, _) => options.MaxMessageBytes = 32 << 20,
        ["buffer: 1 KiB"] = static (options, _) => (options.MaxBufferedBytes, options.MaxMessageBytes) = (1024, MessageBytes),
        ["buffer: 2 GiB"] = static (options, _) => options.MaxBufferedBytes = 2L << 30,
        ["handle: 1 message"] = static (options, _) =>
            (options.MaxBufferedBytesPerHandle, options.MaxMessageBytes) = (MessageBytes + OutputBufferOptions.MessageOverheadBytes, MessageBytes),
        ["handle: 2 GiB"] = static (options, _) => options.MaxBufferedBytesPerHandle = 2L << 30,
        ["send: 256 bytes"] = static (options, _) => options.MaxSendBytes = 256,
        ["send: 256 MiB"] = static (options, _) => options.MaxSendBytes = 256 << 20,
        ["send: 1 batch"] = static (options, _) => options.MaxSendBatches = 1,
        ["send: 64k batches"] = static (options, _) => options.MaxSendBatches = 65_536,
        ["idle handles: 0"] = static (options, _) => options.MaxIdleHandles = 0,
        ["idle handles: 2M"] = static (options, _) => options.MaxIdleHandles = 2_097_152,
        ["frame: 4 KiB"] = static (options, frames) => options.MaxBatchBytes = (frames.MaxFrameBytes = 4096) - FrameWriter.OverheadBytes,
        ["frame: 32 MiB"] = static (_, frames) => frames.MaxFrameBytes = 32 << 20,
    };

    private static readonly OutputHandle[] AllHandles =
    [
        .. Enumerable.Range(1, Handles).Select(static index => index % 5 == 0 ? OutputHandle.Named($"group {index}") : OutputHandle.Connection(node: 1, index)),
    ];

    private readonly byte[] _payload = new byte[MessageBytes];

    private FrameTransport _transport = null!;
    private OutputBuffer _output = null!;

    public static IEnumerable<string> SettingNames => Settings.Keys;

    [ParamsSource(nameof(SettingNames))]
    public string Setting { get; set; } = "";

    [GlobalSetup]
    public void Start()
    {
        var (options, frames) = (new OutputBufferOptions(), new FrameTransportOptions { DestinationNode = 1, PublishesWithoutBlocking = true });
        Settings[Setting](options, frames);
        _transport = new FrameTransport(static (_, _) => default, frames);
        _output = new OutputBuffer(_transport, options);
    }

    [GlobalCleanup]
    public async Task Stop()
    {
        await _output.DisposeAsync();
        _transport.Dispose();
    }

    /// <summary>Half of the messages of a round in a scope of all handles, a quarter each in scopes of one handle and outside; and one large scope.</summary>
    [Benchmark(OperationsPerInvoke = Messages)]
    public async Task Write()
    {
        for (var round = 0; round < Rounds; round++)
        {
            await using (_output.BeginBufferingScope())
                await WriteInTurnAsync(MessagesInRound / 2);
            foreach (var handle in AllHandles)
                await WriteInScopeAsync(handle, MessagesInRound / 4 / Handles);
            await WriteInTurnAsync(MessagesInRound / 4);
            await _output.FlushAsync();
        }

        await WriteInScopeAsync(AllHandles[0], MessagesInLargeScope);
    }

    private async Task WriteInTurnAsync(int messages)
    {
        for (var message = 0; message < messages; message++)
            await _output.WriteAsync(AllHandles[message % Handles], _payload);
    }

    private async Task WriteInScopeAsync(OutputHandle handle, int messages)
    {
        await using var scope = _output.BeginBufferingScope(handle);
        for (var message = 0; message < messages; message++)
            await _output.WriteAsync(handle, _payload);
    }
}
