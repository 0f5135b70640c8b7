using System.ComponentModel.DataAnnotations;
using Microsoft.Extensions.Options;

namespace BatchKit.Transports;

/// <summary>Settings of a receiver. They are read once, when it is created. A value outside its range throws there, and the error names the setting.</summary>
public sealed class BatchReceiverOptions : IValidatableObject
{
    /// <summary>
    /// Drops batches whose numbers were seen; true by default. Set it to false when frames may arrive in another order, as with shared
    /// subscriptions: there a later number may arrive first, and delivery is at least once.
    /// </summary>
    public bool FilterDuplicates { get; set; } = true;

    /// <summary>A producer that sent nothing for this long is forgotten, and what it sends again then counts as new; 1 h by default, from 1 s to 7 days.</summary>
    [TimeSpanRange("00:00:01", "7.00:00:00")]
    public TimeSpan ProducerExpiry { get; set; } = TimeSpan.FromHours(1);

    /// <summary>The most producers remembered; 65,536 by default, at most 16,777,216. With one more, the producer that was silent for longest is forgotten.</summary>
    [NumberRange(1, 1 << 24)]
    public int MaxProducers { get; set; } = 65_536;

    /// <summary>How far a batch's number may lie above the highest one received from its producer, or above the one before it in its frame; 2^32 by default.</summary>
    /// <remarks>
    /// A frame beyond it is rejected, counted and logged. Numbers rise by one for each batch of a partition, whatever its destination, so a receiver that gets few of them sees gaps. A smaller jump is
    /// accepted; one of more than 65,536 does not mark what it skips as seen. The setting has no effect without <see cref="FilterDuplicates"/>.
    /// </remarks>
    [NumberRange(65_536, long.MaxValue)]
    public long MaxNumberJump { get; set; } = 1L << 32;

    /// <summary>Verifies each frame, and rejects those that are not signed with one of its keys; null, the default, to accept every frame, or in a container to use <see cref="OutputBufferOptions.FrameKeys"/>. Rejected frames are counted and logged.</summary>
    public FrameSigner? Signer { get; set; }

    /// <summary>How far the time in a frame's signature may be from the time here, before or after it; 1 day by default, from 1 min to 7 days. It has no effect without <see cref="Signer"/>.</summary>
    /// <remarks>
    /// A frame beyond it is rejected, counted and logged, so that no one can record a frame and publish it again later. Set it above the time that a frame may wait at the broker. A producer's numbers are
    /// remembered for twice as long, if that is longer than <see cref="ProducerExpiry"/>.
    /// </remarks>
    [TimeSpanRange("00:01:00", "7.00:00:00")]
    public TimeSpan MaxFrameAge { get; set; } = TimeSpan.FromDays(1);

    /// <summary>The node whose frames it reads, also in its meter's tags; null, the default, when unknown. A frame that is signed for another node is rejected. Adapters set it.</summary>
    [NumberRange(0, OutputHandle.MaxNode)]
    public int? Node { get; set; }

    /// <summary>
    /// Says whether this process has already delivered a named handle's batch over its local route: true drops the batch. Null, the default, drops none.
    /// </summary>
    /// <remarks>
    /// Set it to <see cref="OutputBuffer.IsDeliveredLocally"/> of this node's buffer where a group's output takes the local route and comes back over the broker
    /// as well; <see cref="BatchKitBuilder.CreateReceiverOptions"/> does that unless it is set. The receiver calls it from its receives, one at a time, and it must not throw.
    /// </remarks>
    public Func<ProducerId, OutputHandle, bool>? IsDeliveredLocally { get; set; }

    /// <summary>The pause after a first failure of the next hop; 100 ms by default, from 1 ms to 1 min. It doubles with each further one, less a random part of up to a half.</summary>
    [TimeSpanRange("00:00:00.001", "00:01:00")]
    public TimeSpan RetryDelay { get; set; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest pause between attempts; 5 s by default, at most 1 h and not below <see cref="RetryDelay"/>.</summary>
    [TimeSpanRange("00:00:00.001", "01:00:00")]
    public TimeSpan MaxRetryDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>How long the next hop may fail to take a batch before the receiver refuses it; 2 min by default, from 10 ms to 1 day.</summary>
    /// <remarks>
    /// The time begins at the first failure while the batch is the first that waits, and continues when its frame is received again. Refusals are counted and logged. <see cref="BatchReceiver"/>
    /// explains how the receiver tells a bad batch from a next hop that is down. A send that has not ended is not interrupted.
    /// </remarks>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan DeliveryTimeout { get; set; } = TimeSpan.FromMinutes(2);

    /// <summary>The broker's name in metrics and spans, in the tag <c>messaging.system</c>, such as <c>rabbitmq</c>; <c>batchkit</c> by default. Adapters set it.</summary>
    public string MessagingSystem { get; set; } = "batchkit";

    /// <summary>The name of the queue that the frames come from, in metrics and spans, in the tag <c>messaging.destination.name</c>; null, the default, for no such tag. Adapters set it.</summary>
    public string? QueueName { get; set; }

    /// <summary>The limits of a frame; the defaults of <see cref="FrameLimits"/> by default. A frame that passes one is malformed.</summary>
    [Required]
    [ValidateObjectMembers]
    public FrameLimits Limits { get; set; } = new();

    /// <summary>The buffer that the receiver belongs to, for its meter's tags; null for none.</summary>
    internal string? BufferName { get; set; }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (MaxRetryDelay < RetryDelay)
        {
            yield return new ValidationResult(
                $"{nameof(MaxRetryDelay)} ({MaxRetryDelay}) must not be below {nameof(RetryDelay)} ({RetryDelay}).", [nameof(MaxRetryDelay)]);
        }
    }
}

/// <summary>Checks the options, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class BatchReceiverOptionsValidator : IValidateOptions<BatchReceiverOptions>;

/// <summary>A receiver's counters since it was created: received = delivered + duplicate + own-group + refused + abandoned + those of the frame under way.</summary>
public readonly record struct BatchReceiverStatistics
{
    /// <summary>Frames that were read.</summary>
    public long ReceivedFrames { get; init; }

    /// <summary>Frames that were refused as malformed.</summary>
    public long MalformedFrames { get; init; }

    /// <summary>Frames that were rejected: they were not signed as <see cref="BatchReceiverOptions.Signer"/> asks, or their numbers jumped by more than <see cref="BatchReceiverOptions.MaxNumberJump"/>.</summary>
    public long RejectedFrames { get; init; }

    /// <summary>Batches in the frames that were read; those of a frame that is received again count again.</summary>
    public long ReceivedBatches { get; init; }

    /// <summary>Messages in those batches.</summary>
    public long ReceivedMessages { get; init; }

    /// <summary>Batches that the next hop has.</summary>
    public long DeliveredBatches { get; init; }

    /// <summary>Messages in those batches, without those that it refused one by one.</summary>
    public long DeliveredMessages { get; init; }

    /// <summary>Batches dropped because their numbers were seen before.</summary>
    public long DuplicateBatches { get; init; }

    /// <summary>Messages in those batches.</summary>
    public long DuplicateMessages { get; init; }

    /// <summary>Batches for named handles dropped because this process has delivered them over its local route; see <see cref="BatchReceiverOptions.IsDeliveredLocally"/>.</summary>
    public long OwnGroupBatches { get; init; }

    /// <summary>Messages in those batches.</summary>
    public long OwnGroupMessages { get; init; }

    /// <summary>Batches that the next hop refused, or did not take within <see cref="BatchReceiverOptions.DeliveryTimeout"/>; they are lost.</summary>
    public long RefusedBatches { get; init; }

    /// <summary>Messages in those batches, and single messages that the next hop refused while it took the rest of their batch.</summary>
    public long RefusedMessages { get; init; }

    /// <summary>Batches of frames that were abandoned because the receiver was cancelled; the broker still has them.</summary>
    public long AbandonedBatches { get; init; }

    /// <summary>Messages in those batches.</summary>
    public long AbandonedMessages { get; init; }

    /// <summary>The number of consecutive failures of the next hop; zero when it took something last.</summary>
    public int ConsecutiveFailures { get; init; }

    /// <summary>How often the receiver's logger, or a listener of its meter or spans, threw. That has no effect on what is received.</summary>
    public long ObserverFaults { get; init; }
}
