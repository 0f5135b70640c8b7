using System.Text;
using BatchKit.Transports;

namespace BatchKit.Tests.Sessions;

/// <summary>A last hop of connections that a test opens and cuts. What waits in one when it is cut is lost, as in a socket. Thread-safe.</summary>
internal sealed class SomeConnections : IBatchTransport
{
    // Guards everything below.
    private readonly Lock _lock = new();
    private readonly Dictionary<OutputHandle, Queue<string>> _open = [];
    private long _sequence;

    public bool SendsWithoutBlocking => true;

    public int MaxMessageBytes { get; init; } = int.MaxValue;

    /// <summary>How many messages each batch had.</summary>
    public List<int> Batches { get; } = [];

    /// <summary>Is called for each batch that a connection got, during the send.</summary>
    public Action<OutputHandle>? Arrived { get; init; }

    /// <summary>While true, each send fails, so that the buffer fills.</summary>
    public bool Fails { get; set; }

    public OutputHandle Open()
    {
        lock (_lock)
        {
            var handle = OutputHandle.Connection(node: 7, ++_sequence);
            _open.Add(handle, new Queue<string>());
            return handle;
        }
    }

    public void Cut(OutputHandle connection)
    {
        lock (_lock)
            _open.Remove(connection);
    }

    public bool IsOpen(OutputHandle connection)
    {
        lock (_lock)
            return _open.ContainsKey(connection);
    }

    /// <summary>True when a client has not read all that arrived.</summary>
    public bool HasOutput(OutputHandle connection)
    {
        lock (_lock)
            return _open.TryGetValue(connection, out var waiting) && waiting.Count > 0;
    }

    /// <summary>Takes what a client has read by now; nothing from a connection that was cut.</summary>
    public IReadOnlyList<string> Read(OutputHandle connection, int most = int.MaxValue)
    {
        var read = new List<string>();
        lock (_lock)
        {
            while (read.Count < most && _open.TryGetValue(connection, out var waiting) && waiting.TryDequeue(out var text))
                read.Add(text.TrimEnd('\r', '\n'));
        }

        return read;
    }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        if (Fails)
            throw new IOException("The test says that sends fail.");
        var outcomes = new BatchOutcome[batches.Length];
        lock (_lock)
        {
            for (var index = 0; index < outcomes.Length; index++)
                outcomes[index] = TryTake(batches.Span[index]) ? BatchOutcome.Acknowledged : BatchOutcome.Refused;
        }

        foreach (var batch in batches.Span)
            Arrived?.Invoke(batch.Handle);
        return outcomes.Contains(BatchOutcome.Refused) ? throw new BatchSendException([.. outcomes], "A connection is gone.") { DestinationsAreGone = true } : default;
    }

    private bool TryTake(MessageBatch batch)
    {
        if (!batch.Handle.IsConnection)
            return true;
        if (!_open.TryGetValue(batch.Handle, out var waiting))
            return false;
        Batches.Add(batch.Count);
        foreach (var message in batch)
        {
            if (message.Kind == MessageKind.Control)
                _open.Remove(batch.Handle);
            else if (message.Header is not { ExcludedConnections: { IsDefaultOrEmpty: false } excluded } || !excluded.Contains(batch.Handle))
                waiting.Enqueue(Encoding.UTF8.GetString(message.Payload.Span));
        }

        return true;
    }
}
