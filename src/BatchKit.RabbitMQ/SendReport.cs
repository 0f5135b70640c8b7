using System.Collections.Immutable;
using System.Runtime.InteropServices;
using BatchKit.Transports;

namespace BatchKit.RabbitMQ;

/// <summary>Says what a send that was not confirmed as a whole means for each of its batches.</summary>
internal sealed class SendReport(string target, IReadOnlyList<PlannedFrame> frames, IReadOnlyList<PublishResult> results)
{
    /// <summary>True when the connection can't be trusted any more.</summary>
    public bool IsConnectionLost => results.Any(static result => result.Outcome == PublishOutcome.Unknown);

    /// <param name="batchCount">How many batches the send had.</param>
    /// <param name="mayComeBack">True shortly after connecting, when a node without a queue may yet bring it.</param>
    public Exception ToException(int batchCount, bool mayComeBack)
    {
        var outcomes = new BatchOutcome[batchCount];
        for (var index = 0; index < frames.Count; index++)
            frames[index].Report(Judge(index, mayComeBack), outcomes);
        var firstError = results.Select(static result => result.Error).FirstOrDefault(static error => error is not null);
        var text = Describe();
        return Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Unacknowledged)
            ? new IOException(text, firstError)
            : new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), text, firstError);
    }

    private BatchOutcome Judge(int index, bool mayComeBack) => results[index].Outcome switch
    {
        PublishOutcome.Confirmed => BatchOutcome.Acknowledged,
        // A later frame in the same queue was confirmed, so the broker has had this one as well; receivers drop it should it come twice.
        PublishOutcome.Unknown => BatchOutcome.Unacknowledged,
        PublishOutcome.TooLarge => BatchOutcome.Refused,
        PublishOutcome.Returned when !mayComeBack => BatchOutcome.Refused,
        // Not taken, while a later one was: a receiver would drop it as a repeat, so sending it again would lose it in silence.
        _ => WasOvertaken(index) ? BatchOutcome.Refused : BatchOutcome.Unacknowledged,
    };

    private bool WasOvertaken(int index)
    {
        for (var later = index + 1; later < frames.Count; later++)
        {
            if (results[later].Outcome == PublishOutcome.Confirmed
                && frames[later].Destination.Shares(frames[index].Destination)
                && frames[later].Producer == frames[index].Producer)
            {
                return true;
            }
        }

        return false;
    }

    private string Describe()
    {
        var sentences = new List<string>();
        for (var index = 0; index < frames.Count; index++)
        {
            var sentence = results[index].Outcome switch
            {
                PublishOutcome.Confirmed => null,
                PublishOutcome.Returned => $"{frames[index].Destination} has no queue: nobody receives there.",
                PublishOutcome.Nacked => $"The broker could not take a frame for {frames[index].Destination}.",
                PublishOutcome.TooLarge => $"A batch for {frames[index].Destination} does not fit {nameof(RabbitMqOptions.MaxFrameBytes)}.",
                _ => results[index].Error?.Message,
            };
            if (sentence is not null && !sentences.Contains(sentence))
                sentences.Add(sentence);
        }

        return $"{target} did not take everything. {string.Join(' ', sentences)}";
    }
}
