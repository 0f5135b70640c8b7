using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Holds up what a connection has read while another process may have the node's number: a process that was frozen finds unread messages, which the broker has given to its successor too.</summary>
/// <param name="lease">The lease of the number; null for none.</param>
/// <param name="connection">Ends when another process has the number.</param>
internal sealed class LeasedDelivery(MqttNodeLease? lease, MqttConnection connection)
{
    /// <returns>False when nothing that was read may be delivered; the broker keeps it.</returns>
    public ValueTask<bool> IsAllowedAsync(CancellationToken cancellationToken) =>
        lease is null || lease.IsCertain ? new ValueTask<bool>(true) : AskAsync(lease, cancellationToken);

    private async ValueTask<bool> AskAsync(MqttNodeLease asked, CancellationToken cancellationToken)
    {
        try
        {
            if (await asked.AskAsync().WaitAsync(cancellationToken).ConfigureAwait(false) is not { } obstacle)
                return true;
            connection.Abandon(obstacle);
        }
        catch (OperationCanceledException)
        {
            // The connection ends before it is known who has the number.
        }

        return false;
    }
}
