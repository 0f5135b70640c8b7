using System.Diagnostics.CodeAnalysis;
using BatchKit;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output over a broker that has no adapter, and receives from there.</summary>
public static class FrameBuilderExtensions
{
    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output for other nodes leaves as frames, which your delegate publishes.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="publish">Returns the delegate when the buffer is created; see <see cref="FrameTransport(Func{OutgoingFrame, CancellationToken, ValueTask}, FrameTransportOptions)"/>.</param>
    /// <param name="configure">Changes the settings.</param>
    /// <param name="partitions">The number of partitions; see <see cref="OutputRoute"/>.</param>
    public static BatchKitBuilder UseFrameTransport(
        this BatchKitBuilder builder,
        Func<IServiceProvider, Func<OutgoingFrame, CancellationToken, ValueTask>> publish,
        Action<FrameTransportOptions>? configure = null,
        int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(publish);
        KeyedServices.Add(builder.Services, builder.Name, (services, _) =>
        {
            var options = new FrameTransportOptions { Signer = builder.CreateSigner(services) };
            configure?.Invoke(options);
            return new FrameTransport(publish(services), options);
        });
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, services => KeyedServices.GetTransport<FrameTransport>(services, builder.Services, builder.Name), partitions);
    }

    /// <summary>Registers a <see cref="FrameReceiver"/> for this node that passes the messages to a handler, in a scope of the services for each batch.</summary>
    /// <typeparam name="THandler">The handler; it is registered as a scoped service unless the services have it.</typeparam>
    /// <inheritdoc cref="AddFrameReceiver(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{BatchReceiverOptions})"/>
    public static BatchKitBuilder AddFrameReceiver<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, Action<BatchReceiverOptions>? configure = null)
        where THandler : class, IMessageHandler
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.AddFrameReceiver(builder.AddHandler<THandler>(), configure);
    }

    /// <summary>Registers a <see cref="FrameReceiver"/> for this node (<see cref="OutputBufferOptions.Node"/>), as a singleton keyed by the buffer's name, and unkeyed for the unnamed buffer.</summary>
    /// <remarks>Your hosted service takes the frames off the broker and hands them to the receiver.</remarks>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="next">Returns the transport that gets the batches: the one to this node's connections, or your own.</param>
    /// <param name="configure">Changes the receiver's settings.</param>
    /// <exception cref="InvalidOperationException">The buffer has a frame receiver already.</exception>
    public static BatchKitBuilder AddFrameReceiver(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, Action<BatchReceiverOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        AdapterServices.ThrowIfReceiving<FrameReceiver>(builder, "your broker");
        KeyedServices.Add(builder.Services, builder.Name, (services, _) => new FrameReceiver(builder.CreateReceiver(services, next, configure), services.GetService<ILogger<FrameReceiver>>()));
        return builder.AllowNoRoute();
    }
}
