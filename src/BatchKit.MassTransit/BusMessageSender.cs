using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using MassTransit.DependencyInjection;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.MassTransit;

/// <summary>Hands the application's own messages to its bus: with its serializer, its filters and, in a scope of the services for each message, its outbox.</summary>
internal sealed class BusMessageSender<TMessage>(
    IServiceScopeFactory scopes, Func<IServiceProvider, BusEndpoints> find, MassTransitMessageOptions options, TimeProvider timeProvider)
    where TMessage : class
{
    // How long a message that is cancelled may take to end.
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(1);

    // Learnt from the broker's first refusal. A larger message would close a channel that the application's own messages use too.
    private readonly RabbitMqFrameLimit _limit = new(int.MaxValue);

    /// <summary>Sends or publishes one message; completes with the broker's confirm, or when the outbox is saved.</summary>
    /// <exception cref="MessageRefusedException">It can't be serialized, or the bus or its broker will never take it.</exception>
    /// <exception cref="TimeoutException">The bus did not confirm it in time.</exception>
    public async ValueTask SendAsync(OutputHandle handle, TMessage message, CancellationToken cancellationToken)
    {
        var timeout = new CancellationTokenSource(options.PublishTimeout, timeProvider);
        var limit = CancellationTokenSource.CreateLinkedTokenSource(timeout.Token, cancellationToken);
        var ending = limit.Token;
        var guard = new SendGuard<TMessage>(handle, _limit, limit);
        var sending = SendInScopeAsync(handle, message, guard, timeout, limit);
        try
        {
            // What the application puts in the way, such as a filter, may not look at its token.
            await sending.WaitAsync(ending).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await sending.WaitAsync(EndLimit, timeProvider, CancellationToken.None).ConfigureAwait(false);
        }
        catch (Exception exception) when (guard.Refusal is { } refusal)
        {
            throw new MessageRefusedException(refusal, guard.Cause ?? exception);
        }
        catch (Exception exception) when (FailureText.Find<MessageRefusedException>(exception) is { } refused)
        {
            throw refused == exception ? refused : new MessageRefusedException(FailureText.MessageOf(refused), exception);
        }
        catch (Exception exception) when (FailureText.Find<MessageReturnedException>(exception) is not null)
        {
            throw new MessageRefusedException($"A {typeof(TMessage)} for {handle} reached no queue, and the application's bus sends it as mandatory. Start its consumer first.", exception);
        }
        catch (Exception exception) when ((exception is OperationCanceledException || !sending.IsCompleted) && !cancellationToken.IsCancellationRequested && ending.IsCancellationRequested)
        {
            _ = sending.ContinueWith(static late => late.Exception, TaskScheduler.Default);
            throw new TimeoutException(
                $"The bus did not confirm a message within {nameof(MassTransitMessageOptions.PublishTimeout)} ({options.PublishTimeout}). Check that the bus is started and that the broker can be reached, or raise the time.", exception);
        }
    }

    // The caller may give it up, so it disposes of what it uses.
    private async Task SendInScopeAsync(OutputHandle handle, TMessage message, SendGuard<TMessage> guard, CancellationTokenSource timeout, CancellationTokenSource limit)
    {
        using var first = timeout;
        using var second = limit;
        var scope = scopes.CreateAsyncScope();
        await using (scope.ConfigureAwait(false))
        {
            await HandOverAsync(find(scope.ServiceProvider), handle, message, guard, limit.Token).ConfigureAwait(false);
            if (options.Complete is { } complete)
                await complete(scope.ServiceProvider, limit.Token).ConfigureAwait(false);
        }
    }

    private async Task HandOverAsync(BusEndpoints bus, OutputHandle handle, TMessage message, SendGuard<TMessage> guard, CancellationToken cancellationToken)
    {
        if (options.SendTo is not { } sendTo)
        {
            await bus.Publishing.Publish(message, guard, cancellationToken).ConfigureAwait(false);
            return;
        }

        var endpoint = await FindEndpointAsync(bus.Sending, sendTo, handle).ConfigureAwait(false);
        await endpoint.Send(message, guard, cancellationToken).ConfigureAwait(false);
    }

    private static async Task<ISendEndpoint> FindEndpointAsync(ISendEndpointProvider sending, Func<OutputHandle, Uri> sendTo, OutputHandle handle)
    {
        var address = SequentialTransport.Create(handle, () => sendTo(handle), nameof(MassTransitMessageOptions.SendTo));
        try
        {
            return await sending.GetSendEndpoint(address).ConfigureAwait(false);
        }
        catch (Exception exception) when (!address.IsAbsoluteUri || exception is ArgumentException or FormatException or ConfigurationException)
        {
            // What each bus throws for an address that it can't read, before it connects.
            throw new MessageRefusedException(
                $"{nameof(MassTransitMessageOptions.SendTo)} returned '{address}' for {handle}, which is no address of the bus: {FailureText.MessageOf(exception)}", exception);
        }
    }
}

/// <summary>What a scope of the services sends and publishes by: for the application's bus, or for one of several.</summary>
internal readonly record struct BusEndpoints(IPublishEndpoint Publishing, ISendEndpointProvider Sending);

/// <summary>Where the services have the application's bus, or one of several.</summary>
internal sealed record BusAccess(Func<IServiceProvider, IBus> FindBus, Func<IServiceProvider, BusEndpoints> FindEndpoints)
{
    public static BusAccess Default { get; } = new(
        static services => services.GetRequiredService<IBus>(),
        static scope => new BusEndpoints(scope.GetRequiredService<IPublishEndpoint>(), scope.GetRequiredService<ISendEndpointProvider>()));

    public static BusAccess To<TBus>()
        where TBus : class, IBus => new(
        static services => services.GetRequiredService<TBus>(),
        static scope => new BusEndpoints(scope.GetRequiredService<Bind<TBus, IPublishEndpoint>>().Value, scope.GetRequiredService<Bind<TBus, ISendEndpointProvider>>().Value));
}

/// <summary>Ends the send of a message that would fail each time: one that can't be serialized, or is too large for the broker. To MassTransit that is a failure like any other, after which it tries again until its token is cancelled.</summary>
internal abstract class SendGuard(RabbitMqFrameLimit limit, CancellationTokenSource send) : IMessageSerializer
{
    private int _messageBytes = -1;

    /// <summary>Why the message is refused; null when it is not.</summary>
    public string? Refusal { get; private set; }

    /// <summary>What was thrown then; null when nothing was.</summary>
    public Exception? Cause { get; private set; }

    public System.Net.Mime.ContentType ContentType => Serializer!.ContentType;

    /// <summary>The bus's own serializer.</summary>
    protected IMessageSerializer? Serializer { get; set; }

    /// <summary>The message and its handle, human-readable.</summary>
    protected abstract string Name { get; }

    public MessageBody GetMessageBody<T>(SendContext<T> context)
        where T : class
    {
        MessageBody body;
        try
        {
            body = Serializer!.GetMessageBody(context);
            // MassTransit's bodies serialize when they are first read, and keep the bytes.
            _messageBytes = body.GetBytes().Length;
        }
        catch (Exception exception)
        {
            Refuse($"A {Name} can't be serialized: {FailureText.MessageOf(exception)}", exception);
            throw;
        }

        if (_messageBytes <= limit.Bytes)
            return body;
        Refuse($"A {Name} of {_messageBytes} bytes does not fit {limit.Remedy}");
        throw new MessageRefusedException(Refusal!);
    }

    /// <summary>Called for each attempt that failed.</summary>
    public void Fail(Exception exception)
    {
        if (RabbitMqClosing.FindSizeRefusal(exception, _messageBytes) is not { } reason)
            return;
        limit.Learn(reason);
        Refuse($"The broker does not take a {Name} of {_messageBytes} bytes: {reason}", exception);
    }

    private void Refuse(string refusal, Exception? cause = null)
    {
        (Refusal, Cause) = (refusal, cause);
        send.Cancel();
    }
}

/// <summary>The guard of one message.</summary>
internal sealed class SendGuard<TMessage>(OutputHandle handle, RabbitMqFrameLimit limit, CancellationTokenSource send)
    : SendGuard(limit, send), IPipe<PublishContext<TMessage>>, IPipe<SendContext<TMessage>>
    where TMessage : class
{
    protected override string Name => $"{typeof(TMessage)} for {handle}";

    public Task Send(PublishContext<TMessage> context) => Send((SendContext<TMessage>)context);

    public Task Send(SendContext<TMessage> context)
    {
        if (context.Serializer != this)
            (Serializer, context.Serializer) = (context.Serializer, this);
        return Task.CompletedTask;
    }

    public void Probe(ProbeContext context) => context.CreateScope("batchkit");
}

/// <summary>Tells the guards of the attempts that failed. MassTransit itself tells no one while it goes on trying.</summary>
internal sealed class SendGuardObserver : IPublishObserver, ISendObserver
{
    public static void Connect(IBus bus)
    {
        var observer = new SendGuardObserver();
        bus.ConnectPublishObserver(observer);
        bus.ConnectSendObserver(observer);
    }

    public Task PrePublish<T>(PublishContext<T> context)
        where T : class => Task.CompletedTask;

    public Task PostPublish<T>(PublishContext<T> context)
        where T : class => Task.CompletedTask;

    public Task PublishFault<T>(PublishContext<T> context, Exception exception)
        where T : class => SendFault(context, exception);

    public Task PreSend<T>(SendContext<T> context)
        where T : class => Task.CompletedTask;

    public Task PostSend<T>(SendContext<T> context)
        where T : class => Task.CompletedTask;

    public Task SendFault<T>(SendContext<T> context, Exception exception)
        where T : class
    {
        if (context.Serializer is SendGuard guard)
            guard.Fail(exception);
        return Task.CompletedTask;
    }
}
