using MQTTnet.Server;

namespace BatchKit.MQTTnet.Injecting;

/// <summary>Counts what the server drops, by either of its strategies: the oldest, which it says in one event, or the new one, which it says in another.</summary>
internal sealed class DropCounter : IDisposable
{
    private readonly MqttServer _server;
    private long _droppedMessages;

    public DropCounter(MqttServer server)
    {
        _server = server;
        server.QueuedApplicationMessageOverwrittenAsync += OnOverwrittenAsync;
        server.ApplicationMessageEnqueuedOrDroppedAsync += OnEnqueuedOrDroppedAsync;
    }

    public long DroppedMessages => Interlocked.Read(ref _droppedMessages);

    public void Dispose()
    {
        _server.QueuedApplicationMessageOverwrittenAsync -= OnOverwrittenAsync;
        _server.ApplicationMessageEnqueuedOrDroppedAsync -= OnEnqueuedOrDroppedAsync;
    }

    private Task OnOverwrittenAsync(QueueMessageOverwrittenEventArgs occurrence)
    {
        Interlocked.Increment(ref _droppedMessages);
        return Task.CompletedTask;
    }

    private Task OnEnqueuedOrDroppedAsync(ApplicationMessageEnqueuedEventArgs occurrence)
    {
        if (occurrence.IsDropped)
            Interlocked.Increment(ref _droppedMessages);
        return Task.CompletedTask;
    }
}
