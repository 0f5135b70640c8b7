using System.Text;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>A handler that a test writes, and that keeps what it was given.</summary>
internal sealed class ScriptedHandler(Func<IReadOnlyList<QueueMessage>, CancellationToken, ValueTask> handle) : IMessageHandler<QueueMessage>
{
    // Guards the list and the event.
    private readonly Lock _lock = new();
    private readonly List<string> _texts = [];
    private TaskCompletionSource _handled = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public ScriptedHandler()
        : this(static (_, _) => ValueTask.CompletedTask)
    {
    }

    /// <summary>The texts of all messages, in the order in which their batches ended, each with its attempt.</summary>
    public IReadOnlyList<string> Handled
    {
        get
        {
            lock (_lock)
                return [.. _texts];
        }
    }

    /// <summary>Makes a handler that tells when its first call has begun, and whose calls wait until the gate is open.</summary>
    public static ScriptedHandler Gated(out Task began, out TaskCompletionSource open)
    {
        var (first, gate) = (new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously), new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously));
        (began, open) = (first.Task, gate);
        return new ScriptedHandler(async (_, _) =>
        {
            first.TrySetResult();
            await gate.Task;
        });
    }

    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        try
        {
            await handle(batch, cancellationToken);
        }
        finally
        {
            lock (_lock)
            {
                _texts.AddRange(batch.Select(static message => $"{Encoding.UTF8.GetString(message.Payload.Span)}:{message.Attempt}"));
                _handled.SetResult();
                _handled = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            }
        }
    }

    public async Task WaitForAsync(int count)
    {
        while (true)
        {
            Task handled;
            lock (_lock)
            {
                if (_texts.Count >= count)
                    return;
                handled = _handled.Task;
            }

            await handled.WithinDeadline();
        }
    }
}
