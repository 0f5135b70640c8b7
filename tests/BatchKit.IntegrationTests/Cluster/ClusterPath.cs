using System.Diagnostics;
using BatchKit.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Cluster;

/// <summary>Two processes over one cluster: a game that writes for two connections and a group, and the gateway that receives all of it.</summary>
internal sealed class ClusterPath : IAsyncDisposable
{
    private const int Game = 1;
    private const int Gateway = 2;
    private const int LinesPerScope = 5;

    // Several frames between two faults, and not so many that a slow machine takes minutes for what waits in the queues.
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(5);

    private static readonly TimeSpan RecoveryLimit = TimeSpan.FromMinutes(2);

    private readonly IHost _game;
    private readonly IHost _gateway;
    private readonly OutputHandle[] _handles = [Some.Connection(Gateway), Some.Connection(Gateway), Some.Group()];
    private readonly WrittenLines[] _written = [new(), new(), new()];
    private CancellationTokenSource _stop = new();
    private Task _writing = Task.CompletedTask;

    private ClusterPath(IHost game, IHost gateway, string queue, ArrivalTimes times, CollectingTransport arrived)
    {
        _game = game;
        _gateway = gateway;
        Queue = queue;
        Times = times;
        Arrived = arrived;
        Output = game.Services.GetRequiredService<OutputBuffer>();
    }

    /// <summary>The gateway's queue.</summary>
    public string Queue { get; }

    /// <summary>What the gateway logged.</summary>
    public LogCollector Log { get; private init; } = new();

    public OutputBuffer Output { get; }

    public ArrivalTimes Times { get; }

    public CollectingTransport Arrived { get; }

    /// <summary>How many messages the end of their scope reported as lost.</summary>
    public int ReportedMessages => _written.Sum(written => written.Reported.Count);

    public static async Task<ClusterPath> StartAsync(RabbitMqCluster cluster, string transport)
    {
        var prefix = Some.Name("cluster");
        var arrived = new CollectingTransport();
        var times = new ArrivalTimes(arrived);
        var log = new LogCollector();
        var gateway = Build(cluster, transport, prefix, Gateway, times, log);
        await gateway.StartAsync().WithinDeadline();
        if (transport == "MassTransit")
            await gateway.Services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty).WaitUntilReadyAsync().WithinDeadline();
        var game = Build(cluster, transport, prefix, Game, new CollectingTransport(), new LogCollector());
        await game.StartAsync().WithinDeadline();
        return new ClusterPath(game, gateway, $"{prefix}.node.{Gateway}", times, arrived) { Log = log };
    }

    /// <summary>Writes numbered lines for each handle until <see cref="PauseAsync"/>, a scope at a time, each awaited until it is acknowledged.</summary>
    public void Write()
    {
        _stop.Dispose();
        _stop = new CancellationTokenSource();
        var stop = _stop.Token;
        _writing = Task.WhenAll(_handles.Zip(_written, (handle, written) => Task.Run(() => WriteUntilAsync(handle, written, stop))));
    }

    /// <summary>Writes no more, until <see cref="Write"/>, and waits until everything has arrived.</summary>
    public async Task PauseAsync()
    {
        await _stop.CancelAsync();
        await _writing.WithinDeadline();
        await Arrived.WaitForMessagesAsync(_written.Sum(written => written.Lines) - ReportedMessages);
    }

    /// <summary>Waits until so many more messages have come through. A cluster may take longer to agree on a broker's end than other tests wait for anything.</summary>
    public async Task WaitForMoreAsync(int messages)
    {
        var wanted = Arrived.MessageCount + messages;
        using var limit = new CancellationTokenSource(RecoveryLimit);
        while (Arrived.MessageCount < wanted)
            await Task.Delay(Pause, limit.Token);
    }

    public async Task AssertAllArrivedOnceAndInOrderAsync()
    {
        await PauseAsync();
        var (lines, reported) = (_written.Sum(written => written.Lines), ReportedMessages);
        await _gateway.StopAsync().WithinDeadline();
        for (var index = 0; index < _handles.Length; index++)
            AssertArrived(_written[index], Arrived.TextsFor(_handles[index]));
        var statistics = Output.GetStatistics();
        Assert.Equal(lines, statistics.AcceptedMessages);
        Assert.Equal((lines - reported, reported), (statistics.AcknowledgedMessages, statistics.FailedMessages));
    }

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync();
        await ((IAsyncDisposable)_game).DisposeAsync();
        await ((IAsyncDisposable)_gateway).DisposeAsync();
        _stop.Dispose();
    }

    /// <summary>Checks that all lines came once and in order, but for those whose loss was reported: some receivers of a group may have had these.</summary>
    private static void AssertArrived(WrittenLines written, IReadOnlyList<string> arrived)
    {
        var some = arrived.ToHashSet(StringComparer.Ordinal);
        Assert.Equal(Some.Lines(written.Lines).Where(line => some.Contains(line) || !written.Reported.Contains(line)), arrived);
    }

    // Over a channel that has worked for a while a send is pipelined: when a broker then rejects one frame and confirms a later one, the loss of the rejected frame is reported.
    private async Task WriteUntilAsync(OutputHandle handle, WrittenLines written, CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            var first = written.Lines;
            try
            {
                await using var scope = Output.BeginBufferingScope(handle);
                for (var line = 0; line < LinesPerScope; line++)
                    Output.Write(handle, Some.Bytes($"line {written.Lines++}"));
            }
            catch (OutputDeliveryException loss)
            {
                Assert.Equal(LinesPerScope, loss.LostMessages);
                written.Reported.UnionWith(Enumerable.Range(first, LinesPerScope).Select(line => $"line {line}"));
            }

            await Task.Delay(Pause, CancellationToken.None);
        }
    }

    private static IHost Build(RabbitMqCluster cluster, string transport, string prefix, int node, IBatchTransport next, ILoggerProvider log)
    {
        var host = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        host.Services.AddLogging(logging => logging.AddProvider(log).SetMinimumLevel(LogLevel.Debug).AddFilter("Microsoft", LogLevel.Warning));
        var batchKit = host.Services.AddBatchKit(options =>
        {
            options.Node = node;
            options.DeliveryTimeout = TimeSpan.FromMinutes(30);
            options.MaxRetryDelay = TimeSpan.FromMilliseconds(500);
        });
        if (transport == "RabbitMQ")
            batchKit.UseRabbitMq(options => Configure(options, cluster, prefix)).ReceiveFromRabbitMq(_ => next);
        else
            batchKit.UseMassTransit(options => Configure(options, cluster, prefix)).ReceiveFromMassTransit(_ => next);
        return host.Build();
    }

    private static void Configure(RabbitMqOptions options, RabbitMqCluster cluster, string prefix)
    {
        (options.Prefix, options.Hosts, options.QueueType) = (prefix, cluster.Hosts, RabbitMqQueueType.Quorum);
        (options.Heartbeat, options.PublishTimeout, options.MaxReconnectDelay) = (TimeSpan.FromSeconds(2), TimeSpan.FromSeconds(3), TimeSpan.FromSeconds(1));
    }

    private static void Configure(MassTransitOptions options, RabbitMqCluster cluster, string prefix)
    {
        (options.Prefix, options.UseQuorumQueues, options.PublishTimeout) = (prefix, true, TimeSpan.FromSeconds(3));
        options.RabbitMq = new MassTransitRabbitMqOptions { Hosts = cluster.Hosts, Heartbeat = TimeSpan.FromSeconds(2), ReconnectDelay = TimeSpan.FromMilliseconds(100) };
    }
}

/// <summary>What was written for one handle.</summary>
internal sealed class WrittenLines
{
    public int Lines { get; set; }

    /// <summary>Those whose loss the end of their scope reported.</summary>
    public HashSet<string> Reported { get; } = new(StringComparer.Ordinal);
}

/// <summary>Hands batches on, and keeps the longest pause between two sends.</summary>
internal sealed class ArrivalTimes(IBatchTransport next) : IBatchTransport
{
    private readonly Lock _lock = new();
    private long _last;
    private TimeSpan _longest;

    public bool SendsWithoutBlocking => next.SendsWithoutBlocking;

    public int MaxMessageBytes => next.MaxMessageBytes;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        lock (_lock)
            Note();
        return next.SendAsync(batches, cancellationToken);
    }

    /// <summary>The longest pause since the last call.</summary>
    public TimeSpan TakeLongest()
    {
        lock (_lock)
        {
            Note();
            (var longest, _longest) = (_longest, TimeSpan.Zero);
            return longest;
        }
    }

    private void Note()
    {
        var now = Stopwatch.GetTimestamp();
        if (_last != 0 && Stopwatch.GetElapsedTime(_last, now) is var pause && pause > _longest)
            _longest = pause;
        _last = now;
    }
}
