using System.ComponentModel.DataAnnotations;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.Postgres;

/// <summary>Settings of an outbox. They are read once, when the outbox is created. A value outside its range stops the start; the error names the setting.</summary>
public sealed class PostgresOutboxOptions : IValidatableObject
{
    /// <inheritdoc cref="PostgresOptions.Schema"/>
    [Required]
    public string Schema { get; set; } = "batchkit";

    /// <inheritdoc cref="PostgresOptions.CreateSchema"/>
    public bool CreateSchema { get; set; } = true;

    /// <summary>The outbox's name; <c>outbox</c> by default, 1 to 1,024 UTF-8 bytes. Of the processes that share an outbox, one at a time forwards its output.</summary>
    [Required]
    public string Name { get; set; } = "outbox";

    /// <summary>The most stored flushes in one send of the inner transport; 100 by default.</summary>
    [Range(1, 10_000)]
    public int BatchSize { get; set; } = 100;

    /// <summary>How long a send of the inner transport may take; 10 s by default. After that it is cancelled, and retried after a pause.</summary>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan SendTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long after a process was killed another one starts to forward its output; 10 s by default.</summary>
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

    /// <inheritdoc cref="PostgresOptions.UsePreparedStatements"/>
    public bool UsePreparedStatements { get; set; } = true;

    /// <summary>Is told when the outbox reaches the server, no longer reaches it, or reaches it again; null by default.</summary>
    /// <remarks>
    /// It notices at its own statements: Npgsql's pool opens and closes connections as it needs them. Calls keep their order and do not overlap: return soon. What the callback throws stops nothing and
    /// makes health degraded.
    /// </remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>True: the host does not start while the server can't be reached, or its queue can't be used. False, the default: it starts, and the outbox goes on trying.</summary>
    public bool FailFast { get; set; }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QueueLimits.RefuseSchema(Schema) is { } schemaReason)
            yield return new ValidationResult($"{nameof(Schema)} {schemaReason}", [nameof(Schema)]);
        if (QueueLimits.RefuseQueue(Name) is { } nameReason)
            yield return new ValidationResult($"{nameof(Name)} {nameReason}", [nameof(Name)]);
    }

    /// <summary>Returns a copy that later changes do not reach.</summary>
    internal PostgresOutboxOptions Copy() => (PostgresOutboxOptions)MemberwiseClone();
}

/// <summary>Checks the options against their attributes; the code is generated, so it is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresOutboxOptionsValidator : IValidateOptions<PostgresOutboxOptions>
{
    public static PostgresOutboxOptionsValidator Shared { get; } = new();

    public static void ThrowIfInvalid(PostgresOutboxOptions options) => OptionsRules.ThrowIfInvalid(Shared, options);
}
