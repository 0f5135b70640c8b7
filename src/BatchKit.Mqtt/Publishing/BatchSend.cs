using System.Collections.Immutable;
using System.Threading.Tasks.Sources;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Publishing;

/// <summary>A send of batches.</summary>
internal sealed class BatchSend(PublishQueue queue, ParkedBatches parked) : PublishSend, IValueTaskSource
{
    private readonly List<BatchPublishes> _groups = [];
    private int _next;

    public override PublishGroup? NextGroup
    {
        get
        {
            while (_next < _groups.Count && !_groups[_next].HasUnsent)
                _next++;
            return _next < _groups.Count ? _groups[_next] : null;
        }
    }

    /// <returns>How many of the messages are new: not of a batch that was begun before.</returns>
    public int Begin(ReadOnlySpan<MessageBatch> batches)
    {
        var (unsettled, begun) = (0, 0);
        foreach (var batch in batches)
        {
            var group = parked.Take(this, batch, out var isBegun);
            _groups.Add(group);
            unsettled += group.Unsettled > 0 ? 1 : 0;
            begun += isBegun ? batch.Count : 0;
        }

        foreach (var batch in batches)
            parked.Forget(batch.Producer);
        Begin(unsettled);
        return begun;
    }

    public void GetResult(short token)
    {
        try
        {
            End(token);
        }
        finally
        {
            queue.Return(this);
        }
    }

    protected override Exception? Finish(Exception? cause)
    {
        var failure = MakeException(cause);
        foreach (var group in _groups)
        {
            group.Leave();
            parked.Return(group);
        }

        _groups.Clear();
        _next = 0;
        return failure;
    }

    private Exception? MakeException(Exception? cause)
    {
        if (cause is null && _groups.TrueForAll(static group => group.Refusal is null))
            return null;
        var outcomes = _groups.ConvertAll(static group => group.Outcome);
        if (outcomes.TrueForAll(static outcome => outcome == BatchOutcome.Unacknowledged))
            return cause;
        var refusals = _groups.Select(static group => group.Refusal).OfType<string>().Distinct(StringComparer.Ordinal).Take(3);
        string[] sentences = cause is null ? [.. refusals] : [cause.Message, .. refusals];
        return new BatchSendException([.. outcomes], $"Not everything was published. {string.Join(' ', sentences)}", cause);
    }
}
