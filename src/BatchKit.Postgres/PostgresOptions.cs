using System.ComponentModel.DataAnnotations;
using BatchKit.Postgres.Schema;
using Microsoft.Extensions.Options;

namespace BatchKit.Postgres;

/// <summary>Settings of sending to queues in PostgreSQL. Read once, when the transport is made; a value outside its range stops the start and names the setting.</summary>
public sealed class PostgresOptions : IValidatableObject
{
    /// <summary>The schema that holds the tables; <c>batchkit</c> by default. Any name of 1 to 63 UTF-8 bytes, which is PostgreSQL's limit for identifiers; it is quoted.</summary>
    [Required]
    public string Schema { get; set; } = "batchkit";

    /// <summary>True, the default: creates or migrates the schema at the first send. False takes it as given, for users that may not create tables; see <see cref="PostgresSchema"/>.</summary>
    public bool CreateSchema { get; set; } = true;

    /// <summary>
    /// When set, all output goes to this queue, whatever its handle, and a row is a frame: what <c>ReceiveFromPostgres</c> takes. Null by
    /// default: a handle's name is its queue, and a row is a message.
    /// </summary>
    [StringLength(QueueLimits.MaxNameBytes, MinimumLength = 1)]
    public string? FrameQueue { get; set; }

    /// <summary>
    /// How many shards a queue gets that this transport creates: 0, the default, is a queue without order; from 1 on its messages are handled in order per <see cref="MessageHeader.Key"/>,
    /// and at most so many workers share it. A queue that exists keeps what it has. See <see cref="QueueShards"/> for single queues.
    /// </summary>
    [Range(0, QueueLimits.MaxShards)]
    public int Shards { get; set; }

    /// <summary>The shards of single queues, by name, which go before <see cref="Shards"/>: so that one scope may write to ordered queues and to others. Empty by default.</summary>
    public IDictionary<string, int> QueueShards { get; } = new Dictionary<string, int>(StringComparer.Ordinal);

    /// <summary>
    /// The least time between two notifications of one queue; 0.5 ms by default. The first after a pause travels with what it tells of; further ones wait for the end of the interval, in whole
    /// milliseconds. A longer one spares the server wakes, and gives workers larger batches that come later.
    /// </summary>
    [TimeSpanRange("00:00:00", "00:01:00")]
    public TimeSpan NotifyInterval { get; set; } = TimeSpan.FromMilliseconds(0.5);

    /// <summary>The most bytes of payload that one statement inserts; 16 MiB by default. A send that has more takes several, in order, each a transaction.</summary>
    [Range(4096, 256 * 1024 * 1024)]
    public int MaxStatementBytes { get; set; } = 16 * 1024 * 1024;

    /// <summary>The longest that one statement may take; 10 s by default. Then the send fails, and dispatch tries again. Keep it below <see cref="OutputBufferOptions.SendTimeout"/>.</summary>
    /// <remarks>
    /// Npgsql asks the server to cancel the statement first. Where the way there has fallen silent that takes up to the connection string's <c>Timeout</c> (15 s by default) for each attempt, and
    /// <c>Cancellation Timeout</c> (2 s) behind: lower both where a server may vanish without a word.
    /// </remarks>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan CommandTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QueueLimits.RefuseSchema(Schema) is { } schemaReason)
            yield return new ValidationResult($"{nameof(Schema)} {schemaReason}", [nameof(Schema)]);
        if (FrameQueue is not null && QueueLimits.RefuseQueue(FrameQueue) is { } queueReason)
            yield return new ValidationResult($"{nameof(FrameQueue)} {queueReason}", [nameof(FrameQueue)]);
        foreach (var (queue, shards) in QueueShards)
        {
            if (shards is < 0 or > QueueLimits.MaxShards)
                yield return new ValidationResult($"{nameof(QueueShards)} of '{queue}' ({shards}) must be from 0 to {QueueLimits.MaxShards}.", [nameof(QueueShards)]);
        }
    }

    /// <summary>How many shards a queue gets that is created.</summary>
    internal int ShardsOf(string queue) => QueueShards.TryGetValue(queue, out var shards) ? shards : Shards;
}

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresOptionsValidator : IValidateOptions<PostgresOptions>
{
    private static readonly PostgresOptionsValidator Shared = new();

    public static void ThrowIfInvalid(PostgresOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(PostgresOptions), result.Failures);
    }
}
