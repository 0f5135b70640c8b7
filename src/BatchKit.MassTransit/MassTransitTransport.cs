using System.Runtime.InteropServices;
using BatchKit.Transports;
using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Sends batches over a MassTransit bus: each send is one frame per destination, and each frame one <see cref="BatchEnvelope"/>.</summary>
/// <remarks>
/// A connection's output goes to its node's queue, a named destination's to every node's. The send completes when the bus has confirmed all of its
/// frames. On RabbitMQ output for a node that is gone is refused (<see cref="BatchOutcome.Refused"/>); a named destination that nobody listens
/// for is success. Thread-safe.
/// </remarks>
public sealed class MassTransitTransport : IBatchTransport
{
    // A frame's own fields around one message, and the longest name of a destination.
    private const int FrameOverheadBytes = 1024 + OutputHandle.MaxNameBytes;

    private readonly BusConnection _connection;
    private readonly TimeProvider _timeProvider;

    /// <summary>Makes a transport over a bus that the caller configured, starts and stops.</summary>
    /// <param name="bus">The bus; on RabbitMQ with publisher confirms, which are MassTransit's default.</param>
    /// <param name="options">Settings; those of the connection and <see cref="MassTransitOptions.Bus"/> are not used.</param>
    /// <param name="timeProvider">The clock; the system's by default.</param>
    public MassTransitTransport(IBus bus, MassTransitOptions? options = null, TimeProvider? timeProvider = null)
        : this(MakeConnection(bus, options), timeProvider)
    {
    }

    internal MassTransitTransport(BusConnection connection, TimeProvider? timeProvider)
    {
        _connection = connection;
        _timeProvider = timeProvider ?? TimeProvider.System;
    }

    /// <summary>True: encoding is all that it does on the caller's thread; connecting and confirms are awaited.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => _connection.Topology.MaxBodyBytes == int.MaxValue
        ? int.MaxValue
        : _connection.Topology.MaxBodyBytes - FrameOverheadBytes;

    private int? DestinationNode => _connection.Options.DestinationNode;

    /// <inheritdoc/>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        if (!FramePlan.IsOneFrame(batches.Span, DestinationNode, out var node))
        {
            await SendRunsAsync(FramePlan.Make(batches.Span, DestinationNode), batches.Length, cancellationToken).ConfigureAwait(false);
            return;
        }

        try
        {
            await SendFrameAsync(FrameBuffer.Encode(batches.Span), node, cancellationToken).ConfigureAwait(false);
        }
        catch (MessageReturnedException exception)
        {
            throw new BatchSendException([.. Enumerable.Repeat(BatchOutcome.Refused, batches.Length)], SendReport.DescribeRefusal(node), exception);
        }
    }

    private static BusConnection MakeConnection(IBus bus, MassTransitOptions? options)
    {
        ArgumentNullException.ThrowIfNull(bus);
        return new BusConnection(bus, options ?? new MassTransitOptions());
    }

    private async Task SendFrameAsync(byte[] frame, int? node, CancellationToken cancellationToken)
    {
        // MassTransit tries again until its token is cancelled, so it always gets one with a limit.
        using var timeout = new CancellationTokenSource(_connection.Options.PublishTimeout, _timeProvider);
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(timeout.Token, cancellationToken);
        try
        {
            await _connection.SendAsync(frame, node, limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException exception) when (timeout.IsCancellationRequested && !cancellationToken.IsCancellationRequested)
        {
            throw new TimeoutException(
                $"The bus did not confirm a frame within {nameof(MassTransitOptions.PublishTimeout)} ({_connection.Options.PublishTimeout}).", exception);
        }
    }

    private async Task SendRunsAsync(FramePlan plan, int batches, CancellationToken cancellationToken)
    {
        var report = new SendReport(batches);
        foreach (var run in plan.Runs)
        {
            var sends = run.ConvertAll(frame => SendFrameAsync(FrameBuffer.Encode(CollectionsMarshal.AsSpan(frame.Batches)), frame.Node, cancellationToken));
            for (var index = 0; index < run.Count; index++)
                await report.AddAsync(run[index], sends[index]).ConfigureAwait(false);

            // What follows may meet what is missing at one receiver, which would then drop it as seen.
            if (!report.IsSettled)
                break;
        }

        report.ThrowIfFailed();
    }
}
