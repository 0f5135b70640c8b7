namespace BatchKit.Batches;

/// <summary>The execution context that a buffer's sends run in: empty except for a mark that says whose send it is.</summary>
/// <remarks>
/// Without it an inline transport would see its writer's ambient scope and trace, and a flush awaited inside its own send would wait for itself.
/// </remarks>
internal sealed class SendContext
{
    private static readonly AsyncLocal<SendContext?> Running = new();

    private readonly ExecutionContext _context;

    public SendContext() => _context = Capture(this);

    /// <summary>True inside a send of the buffer that owns this context.</summary>
    public bool IsInside => ReferenceEquals(Running.Value, this);

    public void Run(ContextCallback callback, object state) => ExecutionContext.Run(_context, callback, state);

    // A thread started without flow has the empty context; the caller's own would leak its request's state into every later send.
    private static ExecutionContext Capture(SendContext mark)
    {
        ExecutionContext? captured = null;
        var thread = new Thread(() =>
        {
            Running.Value = mark;
            captured = ExecutionContext.Capture();
        });
        thread.UnsafeStart();
        thread.Join();
        return captured ?? throw new InvalidOperationException("The execution context could not be captured: its flow is suppressed.");
    }
}
