using System.ComponentModel.DataAnnotations;
using BatchKit.Postgres.Schema;
using Microsoft.Extensions.Options;

namespace BatchKit.Postgres;

/// <summary>Settings of an outbox. Read once, when it is made; a value outside its range stops the start and names the setting.</summary>
public sealed class PostgresOutboxOptions : IValidatableObject
{
    /// <inheritdoc cref="PostgresOptions.Schema"/>
    [Required]
    public string Schema { get; set; } = "batchkit";

    /// <inheritdoc cref="PostgresOptions.CreateSchema"/>
    public bool CreateSchema { get; set; } = true;

    /// <summary>The outbox's name; <c>outbox</c> by default, 1 to 1,024 UTF-8 bytes. Processes that share it send on for one another, one at a time.</summary>
    [Required]
    public string Name { get; set; } = "outbox";

    /// <summary>The node that numbers what <see cref="PostgresOutbox.EnqueueAsync(OutputHandle, BatchKit.Transports.BatchMessage[], Npgsql.NpgsqlTransaction?, CancellationToken)"/> takes; 0 by default.</summary>
    [Range(0, OutputHandle.MaxNode)]
    public int Node { get; set; }

    /// <summary>The most flushes that are sent on at once; 100 by default.</summary>
    [Range(1, 10_000)]
    public int BatchSize { get; set; } = 100;

    /// <summary>The longest that one send of the inner transport may take; 10 s by default. Then it is cancelled, and made again after a pause.</summary>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan SendTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long a process that was killed keeps others from sending on; 10 s by default.</summary>
    [TimeSpanRange("00:00:01", "01:00:00")]
    public TimeSpan ClaimTimeLimit { get; set; } = TimeSpan.FromSeconds(10);

    /// <inheritdoc cref="PostgresQueueReceiverOptions.PollInterval"/>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan PollInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <inheritdoc cref="PostgresQueueReceiverOptions.ListenConnectionString"/>
    public string? ListenConnectionString { get; set; }

    /// <inheritdoc cref="PostgresOptions.CommandTimeout"/>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan CommandTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QueueLimits.RefuseSchema(Schema) is { } schemaReason)
            yield return new ValidationResult($"{nameof(Schema)} {schemaReason}", [nameof(Schema)]);
        if (QueueLimits.RefuseQueue(Name) is { } nameReason)
            yield return new ValidationResult($"{nameof(Name)} {nameReason}", [nameof(Name)]);
    }
}

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresOutboxOptionsValidator : IValidateOptions<PostgresOutboxOptions>
{
    private static readonly PostgresOutboxOptionsValidator Shared = new();

    public static void ThrowIfInvalid(PostgresOutboxOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(PostgresOutboxOptions), result.Failures);
    }
}
