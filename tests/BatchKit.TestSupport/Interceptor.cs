using System.Reflection;

namespace BatchKit.TestSupport;

/// <summary>Passes the calls of an interface on through a function.</summary>
public static class Interceptor
{
    /// <summary>Gives each call to a function, which gets the method, its arguments and the inner call.</summary>
    public static T Of<T>(T inner, Func<MethodInfo, object?[], Func<object?>, object?> intercept)
        where T : class
    {
        var proxy = DispatchProxy.Create<T, Proxy<T>>();
        ((Proxy<T>)(object)proxy).Set(inner, intercept);
        return proxy;
    }

    /// <summary>Answers the calls of one method by a function.</summary>
    public static T Of<T>(T inner, string method, Func<object?> answer)
        where T : class => Of(inner, (called, _, call) => called.Name == method ? answer() : call());

    private class Proxy<T> : DispatchProxy
        where T : class
    {
        private T _inner = null!;
        private Func<MethodInfo, object?[], Func<object?>, object?> _intercept = null!;

        public void Set(T inner, Func<MethodInfo, object?[], Func<object?>, object?> intercept) => (_inner, _intercept) = (inner, intercept);

        protected override object? Invoke(MethodInfo? targetMethod, object?[]? args) =>
            _intercept(targetMethod!, args!, () => targetMethod!.Invoke(_inner, BindingFlags.DoNotWrapExceptions, binder: null, args, culture: null));
    }
}
