using System.Runtime.InteropServices;
using BatchKit.Transports;

namespace BatchKit.Postgres.Sending;

/// <summary>Collects the outcomes of the batches of a send.</summary>
internal sealed class SendReport(int batches)
{
    // Not allocated for a send that succeeds as a whole.
    private BatchOutcome[]? _outcomes;
    private HashSet<string>? _refusals;
    private int _acknowledged;

    public bool HasRefusals => _refusals is not null;

    public bool IsRefused(int batch) => HasRefusals && _outcomes![batch] == BatchOutcome.Refused;

    public void Refuse(int batch, string sentence)
    {
        Outcomes[batch] = BatchOutcome.Refused;
        (_refusals ??= new HashSet<string>(StringComparer.Ordinal)).Add(sentence);
    }

    public void Acknowledge(Range run)
    {
        var (start, length) = run.GetOffsetAndLength(batches);
        _acknowledged += length;
        if (length < batches)
            Outcomes.AsSpan(start, length).Fill(BatchOutcome.Acknowledged);
    }

    /// <summary>Creates the exception that the send throws, with a cause when a statement failed.</summary>
    public Exception ToException(string target, Exception? cause)
    {
        if (_acknowledged == 0 && !HasRefusals)
            return new IOException($"{target} did not accept the send. {cause?.Message}", cause);
        var sentences = cause is null ? _refusals! : [.. _refusals ?? [], cause.Message];
        return new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(Outcomes), $"{target} did not accept all batches. {string.Join(' ', sentences)}", cause);
    }

    private BatchOutcome[] Outcomes => _outcomes ??= new BatchOutcome[batches];
}
