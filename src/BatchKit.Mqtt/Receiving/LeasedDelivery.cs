namespace BatchKit.Mqtt.Receiving;

/// <summary>Holds up what a connection has read while another process may have the node's number: a process that was frozen finds unread messages, which the broker has given to its successor too.</summary>
/// <param name="lease">The lease of the number; null for none.</param>
/// <param name="abandon">Ends the connection, with a human-readable reason.</param>
/// <remarks>One delivery at a time.</remarks>
internal sealed class LeasedDelivery(MqttNodeLease? lease, Action<string> abandon)
{
    // The connection ends a little later, and the number may be this process's again by then: a message that was read meanwhile would overtake those that the broker sends again.
    private bool _isOver;

    /// <returns>False when nothing that was read may be delivered, now or later over this connection; the broker keeps it.</returns>
    public ValueTask<bool> IsAllowedAsync(CancellationToken cancellationToken) => lease is null ? new ValueTask<bool>(true)
        : _isOver ? new ValueTask<bool>(false)
        : lease.IsCertain ? new ValueTask<bool>(true)
        : AskAsync(lease, cancellationToken);

    private async ValueTask<bool> AskAsync(MqttNodeLease asked, CancellationToken cancellationToken)
    {
        try
        {
            if (await asked.AskAsync().WaitAsync(cancellationToken).ConfigureAwait(false) is not { } obstacle)
                return true;
            abandon(obstacle);
        }
        catch (OperationCanceledException)
        {
            // The connection ends before it is known who has the number.
        }

        _isOver = true;
        return false;
    }
}
