using System.Globalization;
using System.Text.RegularExpressions;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Leases a node's number at the broker. One process at a time holds it.</summary>
/// <remarks>
/// The lease is a queue that the holder consumes. The broker deletes the queue when it has no consumer left. One of its arguments names the holder: the broker refuses a declaration with another
/// value, and its refusal quotes both values. The holder always declares the same value, so after a lost connection it has its lease back at once. A quorum queue is not deleted with its last consumer. It expires, so
/// another process waits that long for the number of a holder that is gone. See docs/decisions/0091.
/// </remarks>
internal sealed partial class RabbitMqNodeLease(string prefix, NodeNumber node, bool isQuorum, TimeProvider timeProvider)
{
    private const ushort PreconditionFailed = 406;

    // How many times a process asks for a number that it can't replace: the broker may learn that the earlier process has ended only after its successor has started.
    private const int Attempts = 5;

    // Frees a lease whose holder ended between its declaration and its consumer, or while the broker was down.
    private static readonly TimeSpan UnusedExpiry = TimeSpan.FromSeconds(30);

    // The same for a quorum queue, which nothing else frees when its holder is killed. A holder that only loses its connection is back sooner.
    private static readonly TimeSpan QuorumExpiry = TimeSpan.FromSeconds(10);

    // The caller's cancellation does not end a declaration: between it and its consumer nothing but UnusedExpiry would free the number.
    private static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(5);

    private static readonly TimeSpan AttemptInterval = TimeSpan.FromMilliseconds(250);

    // The broker's refusal quotes it between apostrophes, so it contains none.
    private readonly string _holder = NodeTakenException.NameHolder(Random.Shared.Next().ToString("x8", CultureInfo.InvariantCulture)).Replace('\'', ' ');

    // Written by one attempt to connect or check at a time.
    private IConnection? _connection;
    private LeaseConsumer? _consumer;

    // True from the first refusal until the number is leased or given up.
    private volatile bool _isRefused;

    /// <summary>Checks that the options of a buffer set its node's number. A receiver that declares nothing calls it, because it can't lease a number.</summary>
    /// <param name="services">The services that the buffer is created from.</param>
    /// <param name="name">The buffer's name.</param>
    /// <param name="setting">The setting that is false.</param>
    /// <exception cref="OptionsValidationException"><see cref="OutputBufferOptions.Node"/> is not set.</exception>
    public static void ThrowIfNodeNotSet(IServiceProvider services, string name, string setting)
    {
        if (services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(name).Node is not null)
            return;
        throw new OptionsValidationException(name, typeof(OutputBufferOptions), [$"{nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.Node)} must be set, because "
            + $"{setting} is false: then no number is leased, and the node's queue exists already."]);
    }

    /// <summary>Leases the number. When it is taken and nothing has read it yet, leases another one.</summary>
    /// <exception cref="NodeTakenException">Another process has the number.</exception>
    public async Task TakeAsync(IConnection connection, CancellationToken cancellationToken)
    {
        if (_connection == connection && _consumer is { IsConsuming: true })
            return;
        try
        {
            await TakeOrWaitAsync(connection, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _isRefused = false;
        }
    }

    /// <summary>Waits for a task that takes the lease. The limit is that of one answer of the broker. It starts again while another process has the number: that wait has a limit of its own.</summary>
    /// <exception cref="TimeoutException">The broker does not answer.</exception>
    public async Task WaitAsync(Task taking, TimeSpan limit, CancellationToken cancellationToken)
    {
        while (true)
        {
            try
            {
                await taking.WaitAsync(limit, timeProvider, cancellationToken).ConfigureAwait(false);
                return;
            }
            catch (TimeoutException) when (_isRefused && !taking.IsCompleted)
            {
                // The broker answers.
            }
        }
    }

    /// <summary>Gives the number back, so that a successor can lease it at once. Never throws.</summary>
    /// <remarks>If this fails, the broker frees the number when the connection ends, or some seconds later where the lease is a quorum queue.</remarks>
    public async Task TryReleaseAsync(TimeSpan limit)
    {
        using var late = new CancellationTokenSource(limit, timeProvider);
        await ReleaseAsync(node.Candidate, late.Token).WaitAsync(late.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private async Task TakeOrWaitAsync(IConnection connection, CancellationToken cancellationToken)
    {
        for (var attempt = 1; ;)
        {
            var number = node.Candidate;
            var refusal = await TryTakeAsync(connection, number, cancellationToken).ConfigureAwait(false);
            _isRefused = refusal is not null;
            if (refusal is null && node.TryFix(number))
                return;
            if (refusal is null)
                await ReleaseAsync(number, cancellationToken).ConfigureAwait(false);
            else if (node.TryDrawAnother())
                continue;
            else if (++attempt <= Attempts || await IsAboutToExpireAsync(connection, number, attempt, cancellationToken).ConfigureAwait(false))
                await Task.Delay(AttemptInterval, timeProvider, cancellationToken).ConfigureAwait(false);
            else
                throw await DescribeAsync(connection, number, refusal, cancellationToken).ConfigureAwait(false);
        }
    }

    private async Task ReleaseAsync(int number, CancellationToken cancellationToken)
    {
        if (_consumer is not { IsConsuming: true, Channel: var channel })
            return;
        _consumer = null;
        try
        {
            await channel.QueueDeleteAsync(Queue(number), ifUnused: false, ifEmpty: false, cancellationToken: cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            await RabbitMqEnd.EndAsync(channel, timeProvider).ConfigureAwait(false);
        }
    }

    private string Queue(int number) => string.Create(CultureInfo.InvariantCulture, $"{prefix}.lease.{number}");

    /// <returns>Null when the number is leased; the broker's refusal when another process has it.</returns>
    private async Task<OperationInterruptedException?> TryTakeAsync(IConnection connection, int number, CancellationToken cancellationToken)
    {
        // A channel of its own, because the broker closes a channel on which a declaration fails.
        var channel = await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
        using var limit = new CancellationTokenSource(AnswerLimit, timeProvider);
        var isTaken = false;
        try
        {
            await DeclareAsync(channel, number, CreateArguments(number, _holder), limit.Token).ConfigureAwait(false);
            var consumer = new LeaseConsumer(channel);
            await channel.BasicConsumeAsync(Queue(number), autoAck: true, consumer, limit.Token).ConfigureAwait(false);
            var earlier = _consumer;
            (_connection, _consumer, isTaken) = (connection, consumer, true);
            if (earlier is not null)
                await RabbitMqEnd.EndAsync(earlier.Channel, timeProvider).ConfigureAwait(false);
            return null;
        }
        catch (OperationInterruptedException refusal) when (refusal.ShutdownReason?.ReplyCode == PreconditionFailed)
        {
            return refusal;
        }
        finally
        {
            if (!isTaken)
                await RabbitMqEnd.EndAsync(channel, timeProvider).ConfigureAwait(false);
        }
    }

    private Task<QueueDeclareOk> DeclareAsync(IChannel channel, int number, Dictionary<string, object?> arguments, CancellationToken cancellationToken) =>
        channel.QueueDeclareAsync(Queue(number), durable: true, exclusive: false, autoDelete: !isQuorum, arguments, cancellationToken: cancellationToken);

    private Dictionary<string, object?> CreateArguments(int number, string? holder)
    {
        var arguments = new Dictionary<string, object?>(StringComparer.Ordinal)
        {
            ["x-queue-type"] = isQuorum ? "quorum" : "classic",
            ["x-expires"] = (long)(isQuorum ? QuorumExpiry : UnusedExpiry).TotalMilliseconds,
            ["x-dead-letter-exchange"] = Queue(number),
        };
        // Of the arguments that the broker compares, only this one can be any text, and it needs an exchange. No message is ever dead-lettered from this queue, so the exchange need not exist. Its name is the
        // queue's, because the broker asks for the right to write to it, and a process that only receives has none on the exchange of the output.
        if (holder is not null)
            arguments["x-dead-letter-routing-key"] = holder;
        return arguments;
    }

    /// <returns>True when the holder of a quorum queue is gone, and the broker is about to delete the queue.</returns>
    private async Task<bool> IsAboutToExpireAsync(IConnection connection, int number, int attempt, CancellationToken cancellationToken)
    {
        if (!isQuorum || attempt > Attempts + (2 * QuorumExpiry / AttemptInterval))
            return false;
        var channel = await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
        await using (RabbitMqEnd.AtEnd(channel, timeProvider).ConfigureAwait(false))
        {
            try
            {
                return (await channel.QueueDeclarePassiveAsync(Queue(number), cancellationToken).ConfigureAwait(false)).ConsumerCount == 0;
            }
            catch (OperationInterruptedException)
            {
                // It has just been deleted.
                return true;
            }
        }
    }

    // The broker's text ends after 255 bytes and quotes both values. A declaration without a value leaves more of it for the holder's.
    private async Task<NodeTakenException> DescribeAsync(IConnection connection, int number, OperationInterruptedException refusal, CancellationToken cancellationToken)
    {
        var channel = await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
        await using (RabbitMqEnd.AtEnd(channel, timeProvider).ConfigureAwait(false))
        {
            try
            {
                await DeclareAsync(channel, number, CreateArguments(number, holder: null), cancellationToken).ConfigureAwait(false);
                // The number has become free in the meantime.
                await channel.QueueDeleteAsync(Queue(number), ifUnused: !isQuorum, ifEmpty: false, cancellationToken: cancellationToken).ConfigureAwait(false);
            }
            catch (OperationInterruptedException answer)
            {
                return new NodeTakenException(Describe(number, answer.ShutdownReason?.ReplyText ?? FailureText.MessageOf(answer)), refusal);
            }
        }

        return new NodeTakenException(Describe(number, FailureText.MessageOf(refusal)), refusal);
    }

    private string Describe(int number, string answer)
    {
        var other = CurrentHolder().Match(answer) is { Success: true } match ? match.Groups["holder"].Value : $"another process (the broker said: {answer})";
        return NodeTakenException.Describe(number, other, _holder, "two of its heartbeats");
    }

    // The broker quotes the existing queue's value last. A limit of time would fail on a machine that stands still.
    [GeneratedRegex("current is (the value )?'(?<holder>[^']*)", RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: Timeout.Infinite)]
    private static partial Regex CurrentHolder();

    /// <summary>Keeps the queue from being deleted, and records when the broker has cancelled the consumer.</summary>
    private sealed class LeaseConsumer(IChannel channel) : AsyncDefaultBasicConsumer(channel)
    {
        private volatile bool _isCanceled;

        public bool IsConsuming => !_isCanceled && Channel.IsOpen;

        public override Task HandleBasicCancelAsync(string consumerTag, CancellationToken cancellationToken = default)
        {
            _isCanceled = true;
            return base.HandleBasicCancelAsync(consumerTag, cancellationToken);
        }
    }
}
