using System.Globalization;
using System.Text;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A buffer, the broker and a receiver: the whole way of a message, with numbered messages on it and what arrived at its end.</summary>
internal sealed class MqttWay : IAsyncDisposable
{
    public const int Node = 1;
    public const int MessagesPerScope = 200;

    private const int Connected = 220;

    private readonly LogCollector _receiversLog;

    private MqttWay(OutputBuffer output, MqttTransport transport, MqttReceiver receiver, LogCollector receiversLog, ScriptedTransport nextHop, NumberedArrivals arrived)
    {
        _receiversLog = receiversLog;
        Output = output;
        Transport = transport;
        Receiver = receiver;
        NextHop = nextHop;
        Arrived = arrived;
    }

    public OutputBuffer Output { get; }

    public MqttTransport Transport { get; }

    public MqttReceiver Receiver { get; }

    /// <summary>How many connections the receiver has had.</summary>
    public int ReceiverConnects => _receiversLog.Count(Connected);

    /// <summary>What the receiver hands batches to, which may be made to stall.</summary>
    public ScriptedTransport NextHop { get; }

    public NumberedArrivals Arrived { get; }

    /// <summary>Options for one end of a way.</summary>
    /// <param name="port">The broker's, or a proxy's.</param>
    /// <param name="version">The protocol's version.</param>
    /// <param name="envelopePrefix">Null for a topic each handle, all below <c>way/</c>.</param>
    public static MqttOptions Options(int port, MqttVersion version, string? envelopePrefix = null) => new()
    {
        Server = new Uri($"mqtt://127.0.0.1:{port}"),
        Version = version,
        ClientId = "way",
        EnvelopePrefix = envelopePrefix,
        Subscriptions = envelopePrefix is null ? [new MqttSubscription { Filter = "way/#" }] : [],
        ReconnectDelay = TimeSpan.FromMilliseconds(20),
        MaxReconnectDelay = TimeSpan.FromMilliseconds(200),
        ConnectTimeout = TimeSpan.FromSeconds(2),
    };

    /// <summary>A handle whose messages take the way.</summary>
    public static OutputHandle Topic(int number) => OutputHandle.Named(string.Create(CultureInfo.InvariantCulture, $"way/{number}"));

    public static async Task<MqttWay> StartAsync(MqttOptions sending, MqttOptions receiving)
    {
        var arrived = new NumberedArrivals();
        var nextHop = new ScriptedTransport(arrived);
        var batches = new BatchReceiver(nextHop, new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1) });
        var receiversLog = new LogCollector();
        var receiver = new MqttReceiver(receiving, Node, batches, logger: new Logger<MqttReceiver>(receiversLog));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);
        var transport = new MqttTransport(sending);
        var options = new OutputBufferOptions
        {
            SendTimeout = TimeSpan.FromSeconds(2),
            DeliveryTimeout = TimeSpan.FromMinutes(30),
            RetryDelay = TimeSpan.FromMilliseconds(20),
            MaxRetryDelay = TimeSpan.FromMilliseconds(200),
        };
        return new MqttWay(new OutputBuffer(transport, options), transport, receiver, receiversLog, nextHop, arrived);
    }

    /// <summary>Writes numbered messages in scopes, each awaited until it is acknowledged, until told to stop; returns how many.</summary>
    public async Task<long> WriteUntilAsync(OutputHandle handle, CancellationToken stop, TimeSpan pause = default)
    {
        var number = 0L;
        while (!stop.IsCancellationRequested)
        {
            number = await WriteScopeAsync(handle, number);
            if (pause > TimeSpan.Zero)
                await Task.Delay(pause, CancellationToken.None);
        }

        return number;
    }

    /// <summary>Writes numbered messages in scopes, each awaited until it has arrived at the end of the way, until told to stop; returns how many.</summary>
    public async Task<long> WriteInStepUntilAsync(OutputHandle handle, CancellationToken stop)
    {
        var number = 0L;
        while (!stop.IsCancellationRequested)
        {
            number = await WriteScopeAsync(handle, number);
            await Arrived.WaitForNextAsync(handle, number);
        }

        return number;
    }

    /// <summary>Waits until both ends have noticed that their connections are gone.</summary>
    public Task WaitForLossAsync() => Until.TrueAsync(() => Transport.Fault is not null && Receiver.Fault is not null);

    /// <summary>Waits until the receiver gets what it subscribed to.</summary>
    public Task WaitUntilReceivingAsync() => Until.TrueAsync(() => Receiver.Fault is null);

    /// <summary>Where messages are that do not arrive.</summary>
    public string Describe() =>
        $"Buffer: {Output.GetStatistics()}. Sender: {Transport.Fault ?? "connected"}, {Transport.GetStatistics()}. Receiver: {Receiver.Fault ?? "receiving"}, {ReceiverConnects} connections, {Receiver.GetStatistics()}. The last it logged: {string.Join(" | ", _receiversLog.Entries.TakeLast(6).Select(static entry => entry.Text))}";

    /// <summary>Checks that everything that was accepted was acknowledged.</summary>
    public void AssertAllAcknowledged()
    {
        var statistics = Output.GetStatistics();
        Assert.Equal((statistics.AcceptedMessages, 0, 0), (statistics.AcknowledgedMessages, statistics.PendingMessages, statistics.FailedMessages));
    }

    public async ValueTask DisposeAsync()
    {
        await Output.DisposeAsync();
        await Transport.DisposeAsync();
        await Receiver.DisposeAsync();
    }

    private async Task<long> WriteScopeAsync(OutputHandle handle, long number)
    {
        var text = new byte[32];
        await using var scope = Output.BeginBufferingScope(handle);
        for (var message = 0; message < MessagesPerScope; message++)
            Output.Write(handle, text.AsSpan(0, Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{number++} of this handle"), text)));
        return number;
    }
}
