namespace BatchKit.Postgres.Outbox;

/// <summary>A row with its frame: done when all its batches are acknowledged; dead, so that it can be looked at, when one is refused for good. Until then it goes back as it was.</summary>
internal sealed class StoredRow(QueueMessage message, int batches)
{
    private int _unsettled = batches;
    private string? _refusal;

    public void Acknowledge() => Settle();

    public void Refuse(string reason)
    {
        _refusal = reason;
        Settle();
    }

    private void Settle()
    {
        if (--_unsettled > 0)
            return;
        if (_refusal is null)
            message.Complete();
        else
            message.Bury(_refusal);
    }
}
