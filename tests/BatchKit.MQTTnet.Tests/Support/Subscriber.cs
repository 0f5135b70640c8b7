using System.Buffers;
using System.Text;
using MQTTnet;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>A client that keeps what it gets.</summary>
internal sealed class Subscriber
{
    // Guards the fields below.
    private readonly Lock _lock = new();
    private readonly List<ArrivedMessage> _messages = [];
    private TaskCompletionSource? _enough;
    private int _wanted;

    public Subscriber(IMqttClient client)
    {
        Client = client;
        client.ApplicationMessageReceivedAsync += OnReceivedAsync;
    }

    public IMqttClient Client { get; }

    public IReadOnlyList<ArrivedMessage> Messages
    {
        get
        {
            lock (_lock)
                return [.. _messages];
        }
    }

    public string[] Texts => [.. Messages.Select(message => message.Text)];

    public string[] TextsOf(int quality) => [.. Messages.Where(message => (int)message.QualityOfService == quality).Select(message => message.Text)];

    public static async Task<Subscriber> StartAsync(TestServer server, string filter = "#", MqttQualityOfServiceLevel qualityOfService = MqttQualityOfServiceLevel.AtLeastOnce)
    {
        var subscriber = new Subscriber(await server.ConnectAsync());
        await subscriber.SubscribeAsync(filter, qualityOfService);
        return subscriber;
    }

    public Task SubscribeAsync(string filter, MqttQualityOfServiceLevel qualityOfService = MqttQualityOfServiceLevel.AtLeastOnce) =>
        Client.SubscribeAsync(filter, qualityOfService).WithinDeadline();

    public async Task WaitForMessagesAsync(int count)
    {
        Task enough;
        lock (_lock)
        {
            if (_messages.Count >= count)
                return;
            (_wanted, _enough) = (count, new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously));
            enough = _enough.Task;
        }

        try
        {
            await enough.WithinDeadline();
        }
        catch (TimeoutException)
        {
            var arrived = Messages;
            Assert.Fail($"{arrived.Count} of {count} messages arrived, the last with the text '{(arrived.Count == 0 ? null : arrived[^1].Text)}'; the client is {(Client.IsConnected ? "connected" : "disconnected")}.");
        }
    }

    private Task OnReceivedAsync(MqttApplicationMessageReceivedEventArgs occurrence)
    {
        var message = occurrence.ApplicationMessage;
        var received = new ArrivedMessage(message.Topic, Encoding.UTF8.GetString(message.Payload.ToArray()), [.. (message.UserProperties ?? []).Select(property => property.ToString())],
            message.ContentType, message.Retain, message.MessageExpiryInterval, message.ResponseTopic, message.CorrelationData, message.QualityOfServiceLevel);
        lock (_lock)
        {
            _messages.Add(received);
            if (_messages.Count >= _wanted)
                _enough?.TrySetResult();
        }

        return Task.CompletedTask;
    }
}

/// <summary>A message as a subscriber got it.</summary>
internal sealed record ArrivedMessage(string Topic, string Text, string[] Properties, string? ContentType, bool Retain, uint ExpirySeconds, string? ResponseTopic, byte[]? CorrelationData, MqttQualityOfServiceLevel QualityOfService);
