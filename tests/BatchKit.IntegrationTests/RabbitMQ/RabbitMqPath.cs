using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A buffer, the broker and a receiver: the whole path of a message, with what arrived at its end.</summary>
internal sealed class RabbitMqPath : IAsyncDisposable
{
    public const int Node = 1;

    private RabbitMqPath(OutputBuffer output, RabbitMqTransport transport, RabbitMqReceiver receiver, ScriptedTransport nextHop, CollectingTransport arrived)
    {
        Output = output;
        Transport = transport;
        Receiver = receiver;
        NextHop = nextHop;
        Arrived = arrived;
    }

    public OutputBuffer Output { get; }

    public RabbitMqTransport Transport { get; }

    public RabbitMqReceiver Receiver { get; }

    /// <summary>What the receiver hands batches to, which may be made to stall.</summary>
    public ScriptedTransport NextHop { get; }

    public CollectingTransport Arrived { get; }

    public static async Task<RabbitMqPath> StartAsync(RabbitMqOptions sending, RabbitMqOptions receiving, Action<OutputBufferOptions>? configure = null)
    {
        var arrived = new CollectingTransport();
        var nextHop = new ScriptedTransport(arrived);
        var receiver = new RabbitMqReceiver(receiving, Node, new BatchReceiver(nextHop));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        var transport = new RabbitMqTransport(sending);
        var options = new OutputBufferOptions
        {
            DeliveryTimeout = TimeSpan.FromMinutes(30),
            RetryDelay = TimeSpan.FromMilliseconds(20),
            MaxRetryDelay = TimeSpan.FromMilliseconds(200),
        };
        configure?.Invoke(options);
        return new RabbitMqPath(new OutputBuffer(transport, options), transport, receiver, nextHop, arrived);
    }

    /// <summary>Writes numbered lines in scopes, each awaited until it is acknowledged, until told to stop; returns how many.</summary>
    public async Task<int> WriteUntilAsync(OutputHandle handle, CancellationToken stop)
    {
        const int linesPerScope = 20;
        var lines = 0;
        while (!stop.IsCancellationRequested)
        {
            await using var scope = Output.BeginBufferingScope(handle);
            for (var line = 0; line < linesPerScope; line++)
                Output.Write(handle, Some.Bytes($"line {lines++}"));
        }

        return lines;
    }

    /// <summary>Waits until so many more messages are acknowledged, which is to say that the broker has confirmed them.</summary>
    public Task WaitForAcknowledgedAsync(int more)
    {
        var enough = Output.GetStatistics().AcknowledgedMessages + more;
        return Until.TrueAsync(() => Output.GetStatistics().AcknowledgedMessages >= enough);
    }

    /// <summary>Checks that everything that was accepted was acknowledged, and the law of the counters.</summary>
    public void AssertAllAcknowledged()
    {
        var statistics = Output.GetStatistics();
        AssertLaw(statistics);
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages);
    }

    public static void AssertLaw(OutputStatistics statistics) => Assert.Equal(
        statistics.AcceptedMessages,
        statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages + statistics.PendingMessages);

    public async ValueTask DisposeAsync()
    {
        await Output.DisposeAsync();
        await Transport.DisposeAsync();
        await Receiver.DisposeAsync();
    }
}
