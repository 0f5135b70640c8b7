using System.Diagnostics.CodeAnalysis;
using System.Reflection;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Broadcast;

/// <summary>Finds at the start what would else disconnect every client: a connection handler that can't be created.</summary>
internal static class ConnectionHandlerCheck
{
    /// <summary>Checks the handler's constructor, unless it has several and none is marked: the container then chooses one by its arguments.</summary>
    /// <typeparam name="THandler">The handler.</typeparam>
    /// <param name="services">The application's services, which handlers are created from.</param>
    /// <param name="bufferName">The buffer whose clients it serves.</param>
    /// <exception cref="InvalidOperationException">It needs a service that is missing or scoped. The message names both and the remedy.</exception>
    public static void ThrowIfUncreatable<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(IServiceProvider services, string bufferName)
    {
        var constructors = typeof(THandler).GetConstructors();
        var constructor = constructors.Length == 1 ? constructors[0] : constructors.FirstOrDefault(static one => one.IsDefined(typeof(ActivatorUtilitiesConstructorAttribute)));
        var registered = services.GetRequiredService<IServiceProviderIsKeyedService>();
        var registrations = services.GetRequiredKeyedService<BatchKitBuilder>(bufferName).Services;
        foreach (var parameter in (constructor?.GetParameters() ?? []).Where(static parameter => !parameter.HasDefaultValue && parameter.ParameterType != typeof(ClientConnection)))
        {
            var key = parameter.GetCustomAttribute<FromKeyedServicesAttribute>()?.Key;
            var (type, text) = (parameter.ParameterType, $"{typeof(THandler).Name} can't be created for a connection: its constructor needs {NameOf(parameter.ParameterType, key)}");
            if (!(key is null ? registered.IsService(type) : registered.IsKeyedService(type, key)))
                throw new InvalidOperationException($"{text}, which is not registered. Register it, or take it out of the constructor.");
            if (registrations.LastOrDefault(one => IsOf(one, type, key))?.Lifetime == ServiceLifetime.Scoped)
                throw new InvalidOperationException($"{text}, which is scoped, and a connection has no scope: it may last for hours. Take {nameof(IServiceScopeFactory)} instead, and create a scope for each record.");
        }
    }

    private static bool IsOf(ServiceDescriptor service, Type type, object? key) =>
        Equals(service.ServiceKey, key) && (service.ServiceType == type || (type.IsGenericType && service.ServiceType == type.GetGenericTypeDefinition()));

    private static string NameOf(Type type, object? key) => key is null ? type.Name : $"{type.Name} with the key '{key}'";
}
