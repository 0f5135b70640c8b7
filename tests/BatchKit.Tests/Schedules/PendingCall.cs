namespace BatchKit.Tests.Schedules;

/// <summary>A call whose task had not ended when it returned. The explorer looks at it after each step and never awaits it.</summary>
internal sealed class PendingCall(string name, ValueTask task, Action<Exception?> onEnded, CancellationTokenSource? cancellation)
{
    public string Name { get; } = name;

    public CancellationTokenSource? Cancellation { get; } = cancellation;

    /// <summary>Tells how it ended, once it has.</summary>
    /// <returns>False while it has not.</returns>
    public bool TryEnd()
    {
        if (!task.IsCompleted)
            return false;
        try
        {
            task.GetAwaiter().GetResult();
            onEnded(null);
        }
        catch (Exception failure) when (failure is OutputOverflowException or OutputDeliveryException or OperationCanceledException or ObjectDisposedException)
        {
            onEnded(failure);
        }

        return true;
    }
}
