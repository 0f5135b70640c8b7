using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Publishers;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.Benchmarks.Publish;

/// <summary>A broker and its one subscriber, each a process of its own.</summary>
internal sealed class MqttStage : IDisposable
{
    // Long enough for a machine that does something else for a moment: nothing may count as lost that was only late.
    private const int LostAfterMilliseconds = 2000;

    private readonly MosquittoServer? _server;
    private ChildProcess _subscriber;

    /// <param name="name">What the tables call it.</param>
    /// <param name="options">What is not Mosquitto's default, where it is started here.</param>
    public MqttStage(string name, MosquittoServerOptions options)
    {
        Name = name;
        if (RunSettings.Server is null)
            _server = MosquittoServer.StartOwnAsync(options).GetAwaiter().GetResult();
        Port = _server?.Port ?? RunSettings.Server!.Port;
        _subscriber = StartSubscriber(quality: 0);
    }

    /// <summary>A stage whose broker is a part of the publisher.</summary>
    /// <param name="name">What the tables call it.</param>
    /// <param name="port">Where that listens already.</param>
    /// <param name="quality">QoS of the subscription.</param>
    public MqttStage(string name, int port, int quality)
    {
        (Name, Port) = (name, port);
        _subscriber = StartSubscriber(quality);
    }

    public string Name { get; }

    public int Port { get; }

    /// <summary>Subscribes again. With QoS 1 Mosquitto has a window there too, and drops what waits for it beyond its queue.</summary>
    public void Subscribe(int quality)
    {
        _subscriber.Dispose();
        _subscriber = StartSubscriber(quality);
    }

    /// <summary>Lets a publisher publish, until the last message has arrived.</summary>
    public MqttSample Run(IPublisher publisher, PublishTarget target, int messages) =>
        Measure(messages, isTimed: false, () => publisher.Run(target, messages, () => _subscriber.Ask("count")[0]));

    /// <summary>The same as a game's loop does.</summary>
    public MqttSample RunPaced(PublisherChild publisher, PublishTarget target, int ticks) =>
        Measure(ticks * PublishCommand.MessagesPerTick, isTimed: true, () => publisher.RunPaced(target, ticks));

    public void Dispose()
    {
        _subscriber.Dispose();
        _server?.DisposeAsync().AsTask().GetAwaiter().GetResult();
    }

    private MqttSample Measure(int messages, bool isTimed, Func<PublishUsage> publish)
    {
        _subscriber.Ask($"expect {(isTimed ? 1 : 0)}");
        var usage = publish();
        return MqttSample.From(messages, usage, _subscriber.Ask($"wait {messages} {LostAfterMilliseconds}"));
    }

    private ChildProcess StartSubscriber(int quality)
    {
        var subscriber = ChildProcess.Start("subscribe", $"{Port}", $"{quality}");
        subscriber.Read();
        return subscriber;
    }
}
