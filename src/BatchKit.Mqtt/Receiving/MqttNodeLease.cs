using BatchKit.Diagnostics;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Leases a node's number at the broker. One process at a time holds it. See docs/decisions/0091.</summary>
internal sealed class MqttNodeLease(MqttOptions options, NodeNumber node, TimeProvider timeProvider, GuardedLogger logger) : IAsyncDisposable
{
    // How long the start waits for a number that it can't replace: the broker may learn that the earlier process has ended only after its successor has started.
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(1);

    private static readonly TaskCompletionSource<string> Never = new();

    // Null before the start.
    private volatile NodeClaim? _claim;

    /// <summary>A human-readable reason why another process has the number; null while none has it.</summary>
    public string? TakenReason => _claim?.TakenReason;

    /// <summary>Completes with that reason when another process has the number.</summary>
    public Task<string> Taken => _claim?.Taken ?? Never.Task;

    /// <summary>A human-readable reason why it is not known whether another process has the number; null while that is known.</summary>
    public string? Fault => _claim?.Fault;

    /// <summary>Leases the number. When it is taken and nothing has read it yet, leases another one. If the broker can't be reached, it leases the number after it has connected.</summary>
    /// <exception cref="NodeTakenException">Another process has the number.</exception>
    public async Task TakeAsync(CancellationToken cancellationToken)
    {
        while (true)
        {
            var number = node.Candidate;
            var claim = new NodeClaim(options, number, timeProvider, logger);
            _claim = claim;
            if (await claim.StartAsync(cancellationToken).ConfigureAwait(false))
            {
                if (node.TryFix(number))
                    return;
            }
            else if (!node.TryDrawAnother())
            {
                await WaitUntilFreeAsync(claim, cancellationToken).ConfigureAwait(false);
                return;
            }

            await claim.DisposeAsync().ConfigureAwait(false);
        }
    }

    /// <inheritdoc cref="NodeClaim.IsCertain"/>
    public bool IsCertain => _claim?.IsCertain ?? true;

    /// <inheritdoc cref="NodeClaim.AskAsync"/>
    public Task<string?> AskAsync() => _claim?.AskAsync() ?? Task.FromResult<string?>(null);

    public ValueTask DisposeAsync() => _claim?.DisposeAsync() ?? ValueTask.CompletedTask;

    private async Task WaitUntilFreeAsync(NodeClaim claim, CancellationToken cancellationToken)
    {
        var reason = claim.TakenReason;
        try
        {
            await claim.Free.WaitAsync(Patience, timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            await claim.DisposeAsync().ConfigureAwait(false);
            throw new NodeTakenException(reason!);
        }
    }
}
