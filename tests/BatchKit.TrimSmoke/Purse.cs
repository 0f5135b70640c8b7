namespace BatchKit.TrimSmoke;

/// <summary>A handler that only the services create, so that the trimmer sees no call of its constructor.</summary>
internal sealed class Purse : IMessageHandler
{
    public static int Sum { get; set; }

    public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
            Sum += message.TryRead<Coins>(out var coins) ? coins.Count : 0;
        return default;
    }
}
