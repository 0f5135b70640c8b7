using System.Net.Security;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Protocol;

namespace BatchKit.IntegrationTests.Mqtt.Conformance;

/// <summary>A broker that runs.</summary>
/// <param name="Addresses">Where it listens, by the scheme of the address.</param>
/// <param name="Trusts">Checks its certificate.</param>
/// <param name="Server">What ends with it.</param>
internal sealed record ConformanceBroker(IReadOnlyDictionary<string, Uri> Addresses, RemoteCertificateValidationCallback Trusts, IAsyncDisposable Server) : IAsyncDisposable
{
    public string? UserName { get; init; }

    public string? Password { get; init; }

    /// <summary>Stops it in good order and starts it again; null when it keeps no sessions.</summary>
    public Func<Task>? RestartAsync { get; init; }

    public ValueTask DisposeAsync() => Server.DisposeAsync();
}

/// <summary>Clients of one scenario, at one broker, over one way, with one version.</summary>
internal sealed class ConformanceScene(ConformanceBroker broker, string scheme, MqttVersion version) : IAsyncDisposable
{
    private readonly Stack<IAsyncDisposable> _clients = [];

    public ConformanceBroker Broker => broker;

    public MqttVersion Version => version;

    /// <summary>A topic that no other scenario has.</summary>
    public string Topic { get; } = Some.Name("conformance");

    public MqttOptions Options(Action<MqttOptions>? configure = null)
    {
        var options = new MqttOptions
        {
            Server = broker.Addresses[scheme],
            Version = version,
            ClientId = Some.Name("client"),
            UserName = broker.UserName,
            Password = broker.Password,
            ValidateServerCertificate = broker.Trusts,
            ReconnectDelay = TimeSpan.FromMilliseconds(20),
            MaxReconnectDelay = TimeSpan.FromMilliseconds(500),
        };
        configure?.Invoke(options);
        return options;
    }

    public async Task<CollectingTransport> ReceiveAsync(string? filter = null, Action<MqttOptions>? configure = null, Action<MqttSubscription>? subscribe = null)
    {
        var arrived = new CollectingTransport();
        await ReceiveAsync(arrived, filter, configure, subscribe);
        return arrived;
    }

    public async Task<MqttReceiver> ReceiveAsync(IBatchTransport next, string? filter = null, Action<MqttOptions>? configure = null, Action<MqttSubscription>? subscribe = null)
    {
        var subscription = new MqttSubscription { Filter = filter ?? $"{Topic}/#" };
        subscribe?.Invoke(subscription);
        var options = Options(configure);
        if (options.EnvelopePrefix is null)
            options.Subscriptions.Add(subscription);
        var receiver = new MqttReceiver(options, MqttEnds.Node, new BatchReceiver(next, new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1) }));
        _clients.Push(receiver);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);
        return receiver;
    }

    /// <summary>A receiver on the connection of a transport with <see cref="MqttOptions.SharesConnection"/>.</summary>
    public async Task<MqttReceiver> ReceiveSharedAsync(MqttTransport transport, IBatchTransport next)
    {
        var receiver = new MqttReceiver(transport, MqttEnds.Node, new BatchReceiver(next));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);
        return receiver;
    }

    public MqttTransport Sender(Action<MqttOptions>? configure = null)
    {
        var transport = new MqttTransport(Options(configure));
        _clients.Push(transport);
        return transport;
    }

    /// <summary>Publishes over a connection of its own, and checks that the broker took all.</summary>
    public async Task PublishAsync(params MqttMessage[] messages)
    {
        await using var transport = new MqttTransport(Options());
        await PublishAsync(transport, messages);
    }

    public static async Task PublishAsync(MqttTransport transport, params MqttMessage[] messages)
    {
        var report = await transport.PublishManyAsync(messages).WithinDeadline();
        Assert.True(report.IsSuccess);
    }

    /// <summary>Publishes with quality of service 2, which our publishers do not have, as MQTTnet's client does.</summary>
    public async Task PublishExactlyOnceAsync(params MqttMessage[] messages)
    {
        using var client = new MqttClientFactory().CreateMqttClient();
        var address = broker.Addresses["mqtt"];
        var options = new MqttClientOptionsBuilder().WithTcpServer(address.Host, address.Port).WithProtocolVersion(version == MqttVersion.V5 ? MqttProtocolVersion.V500 : MqttProtocolVersion.V311);
        if (broker.UserName is { } user)
            options.WithCredentials(user, broker.Password);
        await client.ConnectAsync(options.Build()).WithinDeadline();
        foreach (var message in messages)
        {
            await client.PublishAsync(new MqttApplicationMessageBuilder()
                .WithTopic(message.Topic).WithPayload(message.Payload.ToArray()).WithQualityOfServiceLevel(MqttQualityOfServiceLevel.ExactlyOnce).Build()).WithinDeadline();
        }

        await client.DisconnectAsync().WithinDeadline();
    }

    /// <summary>Subscribes with an identifier, which our receivers do not ask for, as MQTTnet's client does, and leaves the session to who connects next.</summary>
    public async Task LeaveSubscriptionAsync(string clientId, string filter, uint identifier)
    {
        using var client = new MqttClientFactory().CreateMqttClient();
        var address = broker.Addresses["mqtt"];
        await client.ConnectAsync(new MqttClientOptionsBuilder().WithTcpServer(address.Host, address.Port).WithProtocolVersion(MqttProtocolVersion.V500)
            .WithClientId(clientId).WithCleanStart(false).WithSessionExpiryInterval(3600).Build()).WithinDeadline();
        await client.SubscribeAsync(new MqttClientSubscribeOptionsBuilder().WithSubscriptionIdentifier(identifier).WithTopicFilter(filter, MqttQualityOfServiceLevel.AtLeastOnce).Build()).WithinDeadline();
        await client.DisconnectAsync().WithinDeadline();
    }

    public MqttMessage Message(string text, string level = "a") => new($"{Topic}/{level}", Some.Bytes(text));

    public MqttMessage[] Lines(int count, int start = 0) => [.. Enumerable.Range(start, count).Select(number => Message($"line {number}"))];

    public async ValueTask DisposeAsync()
    {
        while (_clients.TryPop(out var client))
            await client.DisposeAsync();
    }
}
