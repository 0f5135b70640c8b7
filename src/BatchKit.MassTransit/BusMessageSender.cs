using BatchKit.Diagnostics;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.MassTransit;

/// <summary>Hands the application's own messages to its bus: with its serializer, its filters and, in a scope of the services for each message, its outbox.</summary>
internal sealed class BusMessageSender<TMessage>(
    IServiceScopeFactory scopes, Func<IServiceProvider, BusEndpoints> find, MassTransitMessageOptions options, TimeProvider timeProvider)
    where TMessage : class
{
    /// <summary>Sends or publishes one message; completes with the broker's confirm, or when the outbox is saved.</summary>
    /// <exception cref="MessageRefusedException">It can't be serialized, or the bus will never take it.</exception>
    /// <exception cref="TimeoutException">The bus did not confirm it in time.</exception>
    public async ValueTask SendAsync(OutputHandle handle, TMessage message, CancellationToken cancellationToken)
    {
        using var timeout = new CancellationTokenSource(options.PublishTimeout, timeProvider);
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(timeout.Token, cancellationToken);
        var guard = new SerializerGuard<TMessage>(limit);
        try
        {
            var scope = scopes.CreateAsyncScope();
            await using (scope.ConfigureAwait(false))
            {
                await HandOverAsync(find(scope.ServiceProvider), handle, message, guard, limit.Token).ConfigureAwait(false);
                if (options.Complete is { } complete)
                    await complete(scope.ServiceProvider, limit.Token).ConfigureAwait(false);
            }
        }
        catch (Exception) when (guard.Failure is { } failure)
        {
            throw new MessageRefusedException($"A {typeof(TMessage)} for {handle} can't be serialized: {FailureText.MessageOf(failure)}", failure);
        }
        catch (Exception exception) when (Find<MessageRefusedException>(exception) is { } refused)
        {
            throw refused == exception ? refused : new MessageRefusedException(FailureText.MessageOf(refused), exception);
        }
        catch (Exception exception) when (Find<MessageReturnedException>(exception) is not null)
        {
            throw new MessageRefusedException($"A {typeof(TMessage)} for {handle} reached no queue, and the application's bus sends it as mandatory. Start its consumer first.", exception);
        }
        catch (OperationCanceledException exception) when (timeout.IsCancellationRequested && !cancellationToken.IsCancellationRequested)
        {
            throw new TimeoutException(
                $"The bus did not confirm a message within {nameof(MassTransitMessageOptions.PublishTimeout)} ({options.PublishTimeout}). Check that the bus is started and that the broker can be reached, or raise the time.", exception);
        }
    }

    private async Task HandOverAsync(BusEndpoints bus, OutputHandle handle, TMessage message, SerializerGuard<TMessage> guard, CancellationToken cancellationToken)
    {
        if (options.SendTo is not { } sendTo)
        {
            await bus.Publishing.Publish(message, guard, cancellationToken).ConfigureAwait(false);
            return;
        }

        var address = sendTo(handle) ?? throw new MessageRefusedException($"{nameof(MassTransitMessageOptions.SendTo)} returned null for {handle}. Return an address.");
        var endpoint = await bus.Sending.GetSendEndpoint(address).ConfigureAwait(false);
        await endpoint.Send(message, guard, cancellationToken).ConfigureAwait(false);
    }

    private static T? Find<T>(Exception exception)
        where T : Exception
    {
        for (var cause = exception; cause is not null; cause = cause.InnerException)
        {
            if (cause is T found)
                return found;
        }

        return null;
    }
}

/// <summary>What a scope of the services sends and publishes by: for the application's bus, or for one of several.</summary>
internal readonly record struct BusEndpoints(IPublishEndpoint Publishing, ISendEndpointProvider Sending);

/// <summary>Notes that the application's serializer failed. To MassTransit that is a failure like a broker's, but the next attempt would fail too.</summary>
internal sealed class SerializerGuard<TMessage>(CancellationTokenSource send) : IPipe<PublishContext<TMessage>>, IPipe<SendContext<TMessage>>, IMessageSerializer
    where TMessage : class
{
    private IMessageSerializer? _serializer;

    /// <summary>What the serializer threw; null when it did not.</summary>
    public Exception? Failure { get; private set; }

    public System.Net.Mime.ContentType ContentType => _serializer!.ContentType;

    public Task Send(PublishContext<TMessage> context) => Send((SendContext<TMessage>)context);

    public Task Send(SendContext<TMessage> context)
    {
        if (context.Serializer != this)
            (_serializer, context.Serializer) = (context.Serializer, this);
        return Task.CompletedTask;
    }

    public MessageBody GetMessageBody<T>(SendContext<T> context)
        where T : class
    {
        try
        {
            var body = _serializer!.GetMessageBody(context);
            // MassTransit's bodies serialize when they are first read, and keep the bytes.
            _ = body.GetBytes();
            return body;
        }
        catch (Exception exception)
        {
            Failure = exception;
            // Otherwise MassTransit may try again until the time limit.
            send.Cancel();
            throw;
        }
    }

    public void Probe(ProbeContext context) => context.CreateScope("batchkit");
}
