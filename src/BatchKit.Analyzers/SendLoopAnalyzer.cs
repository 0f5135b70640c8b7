using System;
using System.Collections.Generic;
using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>BK0001: a loop over a broker's or SignalR's client that sends one message in each iteration.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
internal sealed class SendLoopAnalyzer : DiagnosticAnalyzer
{
    private const string ByScope = "Written to an IOutputBuffer inside a buffering scope, they leave as one message";
    private const string HubAdvice = "Inside a buffering scope, they leave as one message (package BatchKit.SignalR)";

    private static readonly Send ToTypedClients = new("Microsoft.AspNetCore.SignalR.IHubClients`1", [], HubAdvice, isHeldByScopes: true);

    private static readonly Send[] Sends =
    [
        new("MassTransit.IPublishEndpoint", ["Publish"], $"{ByScope} (package BatchKit.MassTransit)"),
        new("RabbitMQ.Client.IChannel", ["BasicPublishAsync"], $"{ByScope} (package BatchKit.RabbitMQ)"),
        new("MQTTnet.IMqttClient", ["PublishAsync", "PublishBinaryAsync", "PublishStringAsync", "PublishSequenceAsync"], "PublishManyAsync sends all of them in one write (package BatchKit.MQTTnet)"),
        new("MQTTnet.Client.IMqttClient", ["PublishAsync", "PublishBinaryAsync", "PublishStringAsync"], $"{ByScope} (package BatchKit.Mqtt)"),
        new("MQTTnet.Server.MqttServer", ["InjectApplicationMessage"], "InjectManyAsync injects all of them at once (package BatchKit.MQTTnet)"),
        new("Microsoft.AspNetCore.SignalR.IClientProxy", ["SendAsync", "SendCoreAsync"], HubAdvice, isHeldByScopes: true),
        new("NATS.Client.JetStream.INatsJSContext", ["PublishAsync", "TryPublishAsync"], $"{ByScope} (package BatchKit.Nats)"),
    ];

    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Rules.SendLoop];

    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterCompilationStartAction(static start =>
        {
            var known = (from send in Sends
                         let client = start.Compilation.GetTypeByMetadataName(send.Client)
                         where client is not null
                         from method in send.Methods
                         select (method, call: (client, send))).GroupBy(known => known.method, StringComparer.Ordinal)
                .ToDictionary(group => group.Key, group => group.Select(known => known.call).ToArray(), StringComparer.Ordinal);
            var buffers = BufferTypes.TryGet(start.Compilation);
            var hubClients = start.Compilation.GetTypeByMetadataName(ToTypedClients.Client);
            if (known.Count > 0 || hubClients is not null)
                start.RegisterOperationAction(operation => Analyze(operation, known, hubClients, buffers), OperationKind.Invocation);
        });
    }

    private static void Analyze(OperationAnalysisContext context, Dictionary<string, (INamedTypeSymbol Client, Send Send)[]> known, INamedTypeSymbol? hubClients, BufferTypes? buffers)
    {
        var call = (IInvocationOperation)context.Operation;
        var receiver = call.TargetMethod.ReceiverType();
        var send = known.TryGetValue(call.TargetMethod.Name, out var sends) && receiver is not null ? sends.FirstOrDefault(known => receiver.IsOrImplements(known.Client)).Send : null;
        if (send is null && hubClients is not null && IsTypedSend(call, hubClients))
            send = ToTypedClients;
        if (send is null || BulkLoop.Around(call, alsoInTasks: true) is not { } loop || (send.IsHeldByScopes ? buffers is not null && loop.IsInScope() : IsClientOfIteration(call, loop)))
            return;

        var write = buffers is null ? null : WriteLoopAnalyzer.FindUnscopedWrite(loop, buffers, call);
        context.ReportDiagnostic(Diagnostic.Create(Rules.SendLoop, call.NameLocation(), write?.Locations, properties: null, call.TargetMethod.Name, send.Advice));
    }

    // One message to each of several clients, which no batch puts together.
    private static bool IsClientOfIteration(IInvocationOperation call, IOperation loop)
    {
        var client = call.Receiver()?.DescendantsAndSelf() ?? [];
        var functions = new List<ISymbol>();
        for (var (inner, outer) = ((IOperation)call, call.Parent); outer is not null && inner != loop && inner is not ILocalFunctionOperation; (inner, outer) = (outer, outer.Parent))
        {
            if (outer is IConditionalAccessOperation access && access.WhenNotNull == inner)
                client = client.Concat(access.Operation.DescendantsAndSelf());
            if (((outer as IAnonymousFunctionOperation)?.Symbol ?? (outer as ILocalFunctionOperation)?.Symbol) is { } function)
                functions.Add(function);
        }

        return client.Select(static part => part is ILocalReferenceOperation local ? local.Local : (part as IParameterReferenceOperation)?.Parameter as ISymbol).OfType<ISymbol>()
            .Any(variable => functions.Contains(variable.ContainingSymbol, SymbolEqualityComparer.Default) || variable.DeclaringSyntaxReferences.Any(declared => loop.Syntax.Span.Contains(declared.Span)));
    }

    /// <summary>A call of a hub's own interface for its clients, which sends: one that asks returns a value.</summary>
    private static bool IsTypedSend(IInvocationOperation call, INamedTypeSymbol hubClients) =>
        call.TargetMethod is { ContainingType.TypeKind: TypeKind.Interface, ReturnType: INamedTypeSymbol { Name: "Task", IsGenericType: false } }
        && call.Instance is { } client && IsClientOfHub(client, hubClients);

    // Such as Clients.All or Clients.Group("hall"), at the call or kept in a local.
    private static bool IsClientOfHub(IOperation client, INamedTypeSymbol hubClients)
    {
        var (chosenFrom, type) = client switch
        {
            IPropertyReferenceOperation property => (property.Instance?.Type, property.Type),
            IInvocationOperation choice => (choice.Receiver()?.Type, choice.Type),
            _ => (null, null),
        };
        if (client is ILocalReferenceOperation { Local: var local })
        {
            return client.Root().Descendants().OfType<IVariableDeclaratorOperation>().FirstOrDefault(declarator => SymbolEqualityComparer.Default.Equals(declarator.Symbol, local))
                ?.GetVariableInitializer()?.Value is { } value && value is not ILocalReferenceOperation && IsClientOfHub(value, hubClients);
        }

        return chosenFrom is not null && IsTypeArgumentOf(hubClients, chosenFrom, type);
    }

    private static bool IsTypeArgumentOf(INamedTypeSymbol hubClients, ITypeSymbol clients, ITypeSymbol? chosen) =>
        clients.AllInterfaces.Concat([clients]).OfType<INamedTypeSymbol>()
            .Any(implemented => SymbolEqualityComparer.Default.Equals(implemented.OriginalDefinition, hubClients) && SymbolEqualityComparer.Default.Equals(implemented.TypeArguments[0], chosen));

    /// <summary>Methods of a client that send one message, and what to do instead.</summary>
    private sealed class Send(string client, string[] methods, string advice, bool isHeldByScopes = false)
    {
        public string Client => client;

        public string[] Methods => methods;

        public string Advice => advice;

        /// <summary>True when a scope around the loop is all that it needs.</summary>
        public bool IsHeldByScopes => isHeldByScopes;
    }
}
