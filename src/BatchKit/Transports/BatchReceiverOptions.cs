using System.ComponentModel.DataAnnotations;

namespace BatchKit.Transports;

/// <summary>Settings of a receiver. Read once, when it is made.</summary>
public sealed class BatchReceiverOptions : IValidatableObject
{
    /// <summary>
    /// Drops batches whose numbers were seen; true by default. Set it to false where the way is not first-in-first-out, as with shared
    /// subscriptions: there a later number may arrive first, and delivery is at least once.
    /// </summary>
    public bool FilterDuplicates { get; set; } = true;

    /// <summary>A producer that sent nothing for this long is forgotten, and what it sends again then counts as new; 1 h by default.</summary>
    [TimeSpanRange("00:00:01", "7.00:00:00")]
    public TimeSpan ProducerExpiry { get; set; } = TimeSpan.FromHours(1);

    /// <summary>The most producers remembered; 65,536 by default. With one more, the one that was silent for longest is forgotten.</summary>
    [Range(1, 1 << 24)]
    public int MaxProducers { get; set; } = 65_536;

    /// <summary>This process's node number; 0 by default. Needed by <see cref="DropOwnGroups"/> only.</summary>
    [Range(0, OutputHandle.MaxNode)]
    public int Node { get; set; }

    /// <summary>
    /// Drops batches for named handles that <see cref="Node"/> itself sent; false by default. Set it where output for groups goes to this
    /// node's connections in process and comes back over the broker as well.
    /// </summary>
    public bool DropOwnGroups { get; set; }

    /// <summary>The pause after a first failure of the next hop; 100 ms by default. It doubles with each further one, less a random part of up to a half.</summary>
    [TimeSpanRange("00:00:00.001", "00:01:00")]
    public TimeSpan RetryDelay { get; set; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest pause between tries; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.001", "01:00:00")]
    public TimeSpan MaxRetryDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>What is refused as malformed; the defaults of <see cref="FrameLimits"/> by default.</summary>
    [Required]
    public FrameLimits Limits { get; set; } = new();

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
