namespace BatchKit.Benchmarks.Sink;

/// <summary>What the sink's clients speak.</summary>
internal enum SinkProtocol
{
    Tcp = 0,
    WebSocket = 1,
    SignalR = 2,
}
