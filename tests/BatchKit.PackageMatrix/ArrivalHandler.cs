namespace BatchKit.PackageMatrix;

/// <summary>Receives over any broker.</summary>
internal sealed class ArrivalHandler(Arrivals arrivals) : IMessageHandler
{
    public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
            arrivals.Add(message.Payload.Span);
        return ValueTask.CompletedTask;
    }
}
