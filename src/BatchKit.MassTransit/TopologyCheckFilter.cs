using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using MassTransit.RabbitMqTransport;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.MassTransit;

/// <summary>While an endpoint receives, declares its exchanges and bindings again at an interval, and starts it again when the broker delivers nothing, because the broker reports neither.</summary>
/// <remarks>
/// It never declares a missing queue: the endpoint's consumer would not belong to the new queue. A cluster may end a deletion after it has ended the consumer. It then deletes the queue
/// that the endpoint has declared meanwhile, and does not notify the new consumer. MassTransit declares and consumes again when the channel ends.
/// </remarks>
internal sealed class TopologyCheckFilter(EndpointRun run, int maxFrameBytes, TimeSpan interval, TimeSpan limit, Func<IChannel, Task<uint>> declare, Func<IConnection, Task> lease)
    : IFilter<ChannelContext>
{
    private const ushort NotFound = 404;

    public async Task Send(ChannelContext context, IPipe<ChannelContext> next)
    {
        using var ended = new CancellationTokenSource();
        var connection = context.ConnectionContext.Connection;
        // Before anything is sent over the connection, so that it sees each alarm.
        _ = RabbitMqAlarm.Of(connection);
        var declares = false;
        var check = new RabbitMqCheck(ending => CheckAsync(connection, declares, ending), limit, run.TimeProvider, ended.Token);
        var end = Task.Delay(Timeout.InfiniteTimeSpan, run.TimeProvider, ended.Token);
        await LeaseAsync(check, end).ConfigureAwait(false);
        declares = true;
        var checking = CheckAgainAsync(context, check, end, ended.Token);
        try
        {
            await next.Send(context).ConfigureAwait(false);
        }
        finally
        {
            // A check that the broker does not answer must not keep the endpoint from starting again.
            await ended.CancelAsync().ConfigureAwait(false);
            await checking.WaitAsync(LostAnswerFilter.CloseLimit, run.TimeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    public void Probe(ProbeContext context) => context.CreateFilterScope("topologyCheck");

    // The first lease over this connection. If it fails, the checks try again.
    private async Task LeaseAsync(RabbitMqCheck check, Task end)
    {
        try
        {
            await (await check.RunAsync(end).ConfigureAwait(false))!.ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            run.SetTopologyFault(NoAnswer);
        }
        catch (NodeTakenException exception)
        {
            run.SetTopologyFault(FailureText.MessageOf(exception));
        }
        catch (Exception exception)
        {
            run.SetTopologyFault($"The node's number can't be leased: {RabbitMqClosing.Explain(exception) ?? FailureText.MessageOf(exception)}");
        }
    }

    // The application's bus may have any limit.
    private string? FindLimit(IConnection connection) => connection.Endpoint.MaxInboundMessageBodySize is var limit && limit < maxFrameBytes
        ? $"{nameof(MassTransitOptions.MaxFrameBytes)} ({maxFrameBytes}) is above MaxInboundMessageBodySize ({limit}) of the bus's connection, which ends with each larger frame that comes. Raise the one, or lower the other."
        : null;

    private string NoAnswer => $"The broker did not answer a check within {limit}.";

    /// <returns>How many frames wait in the queue; null for a check that only leases the node's number.</returns>
    private async Task<uint?> CheckAsync(IConnection connection, bool declares, CancellationToken ending)
    {
        uint? waiting = null;
        if (declares)
        {
            // A channel of its own, because the broker closes a channel on which a declaration fails.
            var channel = await connection.CreateChannelAsync(cancellationToken: ending).ConfigureAwait(false);
            await using (RabbitMqEnd.AtEnd(channel, run.TimeProvider).ConfigureAwait(false))
                waiting = await declare(channel).ConfigureAwait(false);
        }

        await lease(connection).ConfigureAwait(false);
        return waiting;
    }

    private async Task CheckAgainAsync(ChannelContext context, RabbitMqCheck check, Task end, CancellationToken ended)
    {
        await using var disposing = check.ConfigureAwait(false);
        var connection = context.ConnectionContext.Connection;
        await Task.Delay(interval, run.TimeProvider, ended).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        while (!ended.IsCancellationRequested && context.Channel.IsOpen)
        {
            try
            {
                RabbitMqAlarm.Of(connection).ThrowIfRaised();
                if (await check.RunAsync(end).ConfigureAwait(false) is { } found && await found.ConfigureAwait(false) is { } waiting)
                    await EvaluateAsync(context, waiting).ConfigureAwait(false);
            }
            catch (OperationInterruptedException exception) when (connection.IsOpen)
            {
                run.SetTopologyFault(exception.ShutdownReason?.ReplyText ?? FailureText.MessageOf(exception));
                // Only the queue can be missing, because the exchanges have been declared.
                if (exception.ShutdownReason?.ReplyCode == NotFound)
                    await LostAnswerFilter.AbortAsync(context, run).ConfigureAwait(false);
            }
            catch (Exception exception) when (exception is NodeTakenException or RabbitMqAlarmException)
            {
                run.SetTopologyFault(FailureText.MessageOf(exception));
            }
            catch (TimeoutException)
            {
                run.SetTopologyFault(NoAnswer);
            }
            catch (Exception)
            {
                // The connection is about to end, or the broker is slow. MassTransit detects which.
            }

            await Task.Delay(interval, run.TimeProvider, ended).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    private async Task EvaluateAsync(ChannelContext context, uint waiting)
    {
        var isStalled = run.Deliveries.IsStalled(waiting);
        var heldChecks = run.Deliveries.CountHeldChecks();
        var fault = isStalled ? DeliveryWatch.Describe(waiting) : heldChecks > 0 ? DeliveryWatch.DescribeHeld(waiting, interval) : FindLimit(context.ConnectionContext.Connection);
        run.SetTopologyFault(fault, isRepeat: heldChecks > 1);
        if (isStalled)
            await LostAnswerFilter.AbortAsync(context, run).ConfigureAwait(false);
    }
}
