using System.Collections.Immutable;
using System.Runtime.InteropServices;

namespace BatchKit.Transports;

/// <summary>Says what a send that was not acknowledged as a whole means for each of its batches.</summary>
public static class FrameReport
{
    /// <summary>Makes the exception that the send throws.</summary>
    /// <param name="target">The next hop, for a person; the message begins with it.</param>
    /// <param name="frames">The send's frames, as they were planned and published.</param>
    /// <param name="results">What was said to each; at least one is not acknowledged.</param>
    /// <param name="batchCount">How many batches the send had.</param>
    /// <returns>A <see cref="BatchSendException"/>, or an <see cref="IOException"/> when no batch was acknowledged and none is refused.</returns>
    public static Exception ToException(string target, IReadOnlyList<PlannedFrame> frames, IReadOnlyList<FrameResult> results, int batchCount)
    {
        ArgumentNullException.ThrowIfNull(frames);
        ArgumentNullException.ThrowIfNull(results);
        var outcomes = new BatchOutcome[batchCount];
        for (var index = 0; index < frames.Count; index++)
            frames[index].Report(Judge(index, frames, results), outcomes);
        var firstError = results.Select(static result => result.Error).FirstOrDefault(static error => error is not null);
        var reasons = results.Select(static result => result.Reason).Where(static reason => reason is not null).Distinct(StringComparer.Ordinal);
        var text = $"{target} did not take everything. {string.Join(' ', reasons)}";
        return Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Unacknowledged)
            ? new IOException(text, firstError)
            : new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), text, firstError);
    }

    private static BatchOutcome Judge(int index, IReadOnlyList<PlannedFrame> frames, IReadOnlyList<FrameResult> results) => results[index].Outcome switch
    {
        FrameOutcome.Acknowledged => BatchOutcome.Acknowledged,
        FrameOutcome.Refused => BatchOutcome.Refused,
        // Not taken, while a later one was: a receiver would drop it as a repeat, so sending it again would lose it in silence.
        FrameOutcome.NotTaken when WasOvertaken(index, frames, results) => BatchOutcome.Refused,
        // A later frame for the same receiver may be acknowledged, and then it has had this one as well; it drops it should it come twice.
        _ => BatchOutcome.Unacknowledged,
    };

    private static bool WasOvertaken(int index, IReadOnlyList<PlannedFrame> frames, IReadOnlyList<FrameResult> results)
    {
        for (var later = index + 1; later < frames.Count; later++)
        {
            if (results[later].Outcome == FrameOutcome.Acknowledged
                && frames[later].Destination.Shares(frames[index].Destination)
                && frames[later].Producer == frames[index].Producer)
            {
                return true;
            }
        }

        return false;
    }
}
