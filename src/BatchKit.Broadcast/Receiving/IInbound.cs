namespace BatchKit.Broadcast.Receiving;

/// <summary>Reads what one client sends, until it sends no more.</summary>
internal interface IInbound
{
    /// <summary>Reads, and hands on what each read brought.</summary>
    /// <param name="delivery">Takes the records of one read at a time.</param>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    /// <returns>Why nothing more comes.</returns>
    Task<InboundEnd> RunAsync(InboundDelivery delivery, CancellationToken cancellationToken);
}
